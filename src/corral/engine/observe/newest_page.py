"""
Reading only the first page of the list, for one call, while it shows every machine that is expected to change.

The list usually begins with the newest machines, and those are the ones that boot. What the page shows is recorded;
what it lacks proves nothing. Neither the order nor the name filter is documented: if the page lacks a machine that is
expected to change, the next listing reads all pages.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud, Listing
from corral.domain.errors import CloudError
from corral.domain.observation.compare import made_by
from corral.domain.observation.provider_names import installation_start
from corral.engine.observe.observations import Observations
from corral.store.session.leadership import Leadership

PAGE: Final = 100
"""Machines on one page. If the provider gives fewer, now and then a page is read that is not enough."""


@dataclass(kw_only=True)
class NewestPage:
    """Whether the first page is enough, and reading it."""

    cloud: Cloud
    observations: Observations
    leadership: Leadership
    clock: Clock
    suffices: bool = field(default=False, init=False)
    """Whether the first page showed every machine that is expected to change when it was last read."""
    _name_start: str = field(default="", init=False)
    """How the names begin that the page is filtered by; empty: no filter."""
    _is_filter_trusted: bool = field(default=True, init=False)

    def after_listing(self, listing: Listing, awaited: Collection[str | None], *, is_settled: bool) -> None:
        """
        Decide after a listing of all pages whether the first page is enough for the next.

        *awaited* are the machines that are expected to change; None stands for one that may not exist, which only a
        complete listing can show. *is_settled*: the listing left nothing open that the next one must show. An account
        with machines of others is filtered by our names.
        """
        installation = self.observations.installation
        ours = [seen for _, seen in made_by(listing.instances, installation)]
        is_filtered = len(ours) < len(listing.instances) and self._is_filter_trusted
        self._name_start = installation_start(installation) if is_filtered else ""
        first = (ours if is_filtered else listing.instances)[:PAGE]
        self.suffices = is_settled and listing.pages > 1 and {seen.id for seen in first}.issuperset(awaited)

    async def read(self) -> frozenset[str] | None:
        """Read the page and record what it shows; returns the ids of the machines, or None if it could not be read."""
        began = self.clock.now()
        try:
            page = await self.cloud.named_like(self._name_start)
        except CloudError as error:
            log.warning("observer.listing_failed", why=error.message)
            return None
        await self.leadership.check()  # the leader may have been paused and replaced during the call
        await self.observations.record(page, began=began)
        return frozenset(seen.id for seen in page.instances)

    def after_page(self, shown: frozenset[str], awaited: Collection[str | None]) -> None:
        """Decide after the page was read whether it is enough for the next time, too."""
        self.suffices = shown.issuperset(awaited)
        if not shown and self._name_start:
            self._is_filter_trusted = False
