"""
The merged listing: our records and the provider's list, read at the same time.

`domain/observation/merge.py` merges them.

Three things are remembered: the shown answer, for each set of options; what the provider last listed, which the
observer of this process refreshes as it looks; and how long a listing takes. A change of ours makes a new answer from
the same provider list, so a busy fleet costs no calls. A provider that does not answer is waited for only as long as
it usually takes; then our own records are shown, with what it listed within the last minute, and the answer says so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from corral.base.clock import Clock
from corral.base.log import log
from corral.cache.cache import Cache
from corral.cache.registry import CacheName, CacheRegistry
from corral.cloud.port import Cloud, Listing
from corral.domain.errors import CloudError
from corral.domain.instance import Instance, InstanceId, OperationId
from corral.domain.observation.merge import Merged, ProviderListing, Source, merge
from corral.domain.operation import InstanceWithOperation, Operation
from corral.engine.observe.observations import Observations, unmatched_records
from corral.engine.queries.instance_details import InstanceDescriber
from corral.store.session.database import Database
from corral.store.tables import instances, operations
from corral.views.listing import ListedInstance, ListingResult, ListingTimings, listed_instance

LEAST_PATIENCE_SECONDS: Final = 0.75
"""
How long a provider is waited for at least, from when it was asked.

Shorter, and an answer is called degraded although the provider is only a little slower than the last time; longer, and
every reader waits that long for a provider that does not answer.
"""
MOST_PATIENCE_SECONDS: Final = 2.0
"""And at most, also before anything is known of it: a person waits this long without wondering."""
USUAL_TIMES: Final = 3
"""A listing that takes so many times as long as the last one is taken for one that will not come."""
DEGRADED_SECONDS: Final = 1.0
"""How long an answer without the provider is given out: it should be there again in the next."""

_ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingOptions:
    """What a caller may choose."""

    include_novita_only: bool
    sync_local_state: bool

    @property
    def key(self) -> str:
        """These options as the cache knows them."""
        return f"includeNovitaOnly={self.include_novita_only}&syncLocalState={self.sync_local_state}".lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedListing:
    result: ListingResult
    kept_since: float
    """From when its time in the cache counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AccountRead:
    """One reading of the provider's list."""

    listing: Listing
    began: datetime
    began_at: float

    def heard(self, now: datetime) -> ProviderListing:
        return ProviderListing(listed=self.listing.instances, complete=self.listing.complete, began=self.began, now=now)


class MergedListing:
    """The merged listing of one process."""

    def __init__(
        self,
        *,
        cloud: Cloud,
        database: Database,
        caches: CacheRegistry,
        sightings: Observations,
        clock: Clock,
        describer: InstanceDescriber,
    ) -> None:
        self._cloud = cloud
        self._database = database
        self._sightings = sightings
        self._clock = clock
        self._describer = describer
        self._answers: Cache[_CachedListing] = caches[CacheName.MERGED_LISTING]
        self._looks: Cache[_AccountRead] = caches[CacheName.INSTANCE_STATES]
        self._flight: asyncio.Task[_AccountRead] | None = None
        self._asked_at = 0.0
        """When that was begun; those who ask later wait for what is left of the same time."""
        self._usual_seconds: float | None = None
        self._failed = False

    def heard(self, listing: Listing, began: datetime) -> None:
        """The observer of this process read the provider's list; that saves us a look."""
        since_began = (self._clock.now() - began).total_seconds()
        self._keep(_AccountRead(listing=listing, began=began, began_at=self._clock.monotonic() - since_began))

    async def read(self, options: ListingOptions) -> ListingResult:
        """The merged listing; raises no CloudError."""
        kept = await self._answers.get(options.key, partial(self._make, options), since=lambda made: made.kept_since)
        return replace(kept.result, hit_ratio=self._answers.stats().hit_ratio)

    async def _make(self, options: ListingOptions) -> _CachedListing:
        began_at = self._clock.monotonic()
        if options.sync_local_state:
            look, warning = await self._look(fresh=True)
            asked_at = self._clock.monotonic()
            if look is not None and warning is None:
                await self._sightings.record(look.listing, began=look.began)
            local = await self._records()
            provider_seconds, local_seconds = asked_at - began_at, self._clock.monotonic() - asked_at
        else:
            (look, warning, provider_seconds), (local, local_seconds) = await asyncio.gather(
                self._timed_look(began_at), self._timed_records(began_at)
            )
        merging_at = self._clock.monotonic()
        items, asked = await self._merged(local, look)
        if not options.include_novita_only:
            items = [item for item in items if item.instance is not None]
        encoded = msgspec.json.encode([await self._listed(item, asked) for item in items])
        sources = Counter(item.source for item in items)
        now = self._clock.monotonic()
        degraded_since = now - self._answers.ttl_seconds + DEGRADED_SECONDS
        result = ListingResult(
            encoded=encoded,
            sources={source: sources[source] for source in Source},
            warning=warning,
            spent=ListingTimings(on_provider=provider_seconds, on_records=local_seconds, on_merging=now - merging_at),
        )
        kept_since = degraded_since if look is None or warning is not None else look.began_at
        return _CachedListing(result=result, kept_since=kept_since)

    async def _listed(self, item: Merged, operations_by_id: Mapping[OperationId, Operation]) -> ListedInstance:
        details = None
        if item.instance is not None:
            operation = operations_by_id.get(item.instance.operation_id)
            details = await self._describer.details(InstanceWithOperation(instance=item.instance, operation=operation))
        return listed_instance(self._describer.view, item, details)

    async def _timed_look(self, began_at: float) -> tuple[_AccountRead | None, str | None, float]:
        look, warning = await self._look(fresh=False)
        return look, warning, self._clock.monotonic() - began_at

    async def _timed_records(self, began_at: float) -> tuple[dict[InstanceId, Instance], float]:
        return await self._records(), self._clock.monotonic() - began_at

    async def _records(self) -> dict[InstanceId, Instance]:
        async with self._database.connection() as connection:
            return {instance.id: instance for instance in await instances.present(connection)}

    async def _merged(
        self, local: dict[InstanceId, Instance], look: _AccountRead | None
    ) -> tuple[list[Merged], dict[OperationId, Operation]]:
        """Merged, with what was last asked of each; what is listed may belong to a record of something gone."""
        policy, installation = self._sightings.policy, self._sightings.installation
        heard = None if look is None else look.heard(self._clock.now())
        async with self._database.connection() as connection:
            if heard is not None:
                local |= await unmatched_records(connection, local.values(), heard.listed, installation)
            asked = await operations.of_many(connection, [instance.operation_id for instance in local.values()])
        return merge(local, heard, policy=policy, installation=installation), asked

    async def _look(self, *, fresh: bool) -> tuple[_AccountRead | None, str | None]:
        """What the provider lists, and a warning when that is old or missing."""
        held = self._looks.peek(_ALL)
        is_recent = held is not None and self._clock.monotonic() - held.began_at < self._answers.ttl_seconds
        self._looks.count(hit=is_recent and not fresh)
        if is_recent and not fresh:
            return held, None
        if self._flight is None or self._flight.done():
            self._asked_at = self._clock.monotonic()
            self._flight = asyncio.create_task(self._read())
            self._flight.add_done_callback(_taken)
        try:
            look = await self._in_time(self._flight)
        except CloudError as error:
            self._failed = True
            return held, _warning(held, f"the provider could not be asked: {error.message}")
        if look is None:
            return held, _warning(held, "the provider did not answer in time")
        return look, None

    async def _in_time(self, flight: asyncio.Task[_AccountRead]) -> _AccountRead | None:
        """What *flight* brings, if it comes in time; it goes on in any case, for those who ask later."""
        left = max(0.0, self._patience() - (self._clock.monotonic() - self._asked_at))
        patience = asyncio.ensure_future(self._clock.sleep(left))
        try:
            await asyncio.wait([flight, patience], return_when=asyncio.FIRST_COMPLETED)
        finally:
            patience.cancel()
        return flight.result() if flight.done() else None

    def _patience(self) -> float:
        if self._failed:
            return LEAST_PATIENCE_SECONDS
        if self._usual_seconds is None:
            return MOST_PATIENCE_SECONDS
        return min(max(LEAST_PATIENCE_SECONDS, USUAL_TIMES * self._usual_seconds), MOST_PATIENCE_SECONDS)

    async def _read(self) -> _AccountRead:
        began, began_at = self._clock.now(), self._clock.monotonic()
        try:
            listing = await self._cloud.instances()
        except CloudError as error:
            log.warning("listing.degraded", why=error.message)
            raise
        look = _AccountRead(listing=listing, began=began, began_at=began_at)
        self._keep(look)
        return look

    def _keep(self, look: _AccountRead) -> None:
        held = self._looks.peek(_ALL)
        if held is None or held.began_at <= look.began_at:
            self._looks.put(_ALL, look)
        self._usual_seconds = self._clock.monotonic() - look.began_at
        self._failed = False


def _taken(flight: asyncio.Task[_AccountRead]) -> None:
    """Take note of how *flight* ended, for when there is no waiter any more; `_read` has logged an error."""
    if not flight.cancelled():
        flight.exception()


def _warning(held: _AccountRead | None, why: str) -> str:
    if held is None:
        return f"{why}; only Corral's own records are shown"
    return f"{why}; its part is as of {held.began:%H:%M:%S} UTC"
