"""
The merged listing: our records and the provider's list, read at the same time.

`domain/observation/merge.py` merges them.

Three things are cached: the encoded result for each set of options; the provider's last list, which the observer of
this process refreshes; and how long a listing takes. A change in our records makes a new result from the same list, so
a busy fleet costs no calls. A provider that does not respond is waited for only as long as it usually takes; then our
records are shown with what it listed within the last minute, and a warning.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import msgspec

from corral.base.clock import Clock
from corral.base.log import log
from corral.cache.cache import Cache, retrieve_error
from corral.cache.registry import CacheName, CacheRegistry
from corral.cloud.port import Cloud, Listing
from corral.domain.errors import CloudError
from corral.domain.instance import Instance, InstanceId, OperationId
from corral.domain.observation.merge import Merged, ProviderListing, Source, merge
from corral.domain.operation import InstanceWithOperation, Operation
from corral.engine.observe.observations import Observations, unmatched_records
from corral.engine.queries.instances import InstanceDescriber
from corral.store.session.database import Database
from corral.store.tables import instances, operations
from corral.views.listing import ListedInstance, ListingResult, listed_instance

LEAST_WAIT_SECONDS: Final = 0.75
"""How long a provider is waited for at least, from when it was asked. Shorter, and an answer is called degraded
although the provider is only a little slower than the last time; longer, and every reader waits that long for a
provider that does not answer."""
MOST_WAIT_SECONDS: Final = 2.0
"""How long it is waited for at most, also before the first listing. Longer, and readers of the API wait noticeably."""
USUAL_TIMES: Final = 3
"""A listing that takes so many times as long as the last one is taken for one that will not come."""
DEGRADED_SECONDS: Final = 1.0
"""How long an answer without the provider is given out: it should be there again in the next."""

_ALL: Final = "all"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingOptions:
    """The options of a request."""

    include_novita_only: bool
    sync_local_state: bool

    @property
    def key(self) -> str:
        """The cache key of these options."""
        return f"includeNovitaOnly={self.include_novita_only}&syncLocalState={self.sync_local_state}".lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedListing:
    result: ListingResult
    kept_since: float
    """From when its time in the cache counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AccountRead:
    """One read of the provider's list."""

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
        self._lists: Cache[_AccountRead] = caches[CacheName.INSTANCE_STATES]
        self._flight: asyncio.Task[_AccountRead] | None = None
        self._asked_at = 0.0
        """When that was begun; later requests wait for the rest of the same time."""
        self._usual_seconds: float | None = None
        self._failed = False

    def heard(self, listing: Listing, began: datetime) -> None:
        """Use the list that the observer of this process read; it saves a call."""
        since_began = (self._clock.now() - began).total_seconds()
        self._keep(_AccountRead(listing=listing, began=began, began_at=self._clock.monotonic() - since_began))

    async def sync(self) -> tuple[Listing, datetime]:
        """Read the provider's list now and record what it shows; returns it and when it began. Raises CloudError."""
        listed = await self._read()
        await self._sightings.record(listed.listing, began=listed.began)
        return listed.listing, listed.began

    async def read(self, options: ListingOptions) -> ListingResult:
        """The merged listing; raises no CloudError."""
        kept = await self._answers.get(options.key, partial(self._make, options), since=lambda made: made.kept_since)
        return replace(kept.result, hit_ratio=self._answers.stats().hit_ratio)

    async def _make(self, options: ListingOptions) -> _CachedListing:
        if options.sync_local_state:
            (listed, warning), provider_seconds = await self._timed(self._list(fresh=True))
            if listed is not None and warning is None:
                await self._sightings.record(listed.listing, began=listed.began)
            local, records_seconds = await self._timed(self._records())
        else:
            ((listed, warning), provider_seconds), (local, records_seconds) = await asyncio.gather(
                self._timed(self._list(fresh=False)), self._timed(self._records())
            )
        merging_at = self._clock.monotonic()
        items, asked = await self._merged(local, listed)
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
            provider_seconds=provider_seconds,
            records_seconds=records_seconds,
            merging_seconds=now - merging_at,
        )
        kept_since = degraded_since if listed is None or warning is not None else listed.began_at
        return _CachedListing(result=result, kept_since=kept_since)

    async def _listed(self, item: Merged, operations_by_id: Mapping[OperationId, Operation]) -> ListedInstance:
        details = None
        if item.instance is not None:
            operation = operations_by_id.get(item.instance.operation_id)
            details = await self._describer.details(InstanceWithOperation(instance=item.instance, operation=operation))
        return listed_instance(self._describer.view, item, details)

    async def _timed(self, work: Awaitable[T]) -> tuple[T, float]:
        """The result of *work*, and how many seconds it took."""
        began_at = self._clock.monotonic()
        return await work, self._clock.monotonic() - began_at

    async def _records(self) -> dict[InstanceId, Instance]:
        async with self._database.connection() as connection:
            return {instance.id: instance for instance in await instances.present(connection)}

    async def _merged(
        self, local: dict[InstanceId, Instance], listed: _AccountRead | None
    ) -> tuple[list[Merged], dict[OperationId, Operation]]:
        """The merged instances and their operations; a listed machine may belong to the record of a terminated one."""
        policy, installation = self._sightings.policy, self._sightings.installation
        heard = None if listed is None else listed.heard(self._clock.now())
        async with self._database.connection() as connection:
            if heard is not None:
                local |= await unmatched_records(connection, local.values(), heard.listed, installation)
            asked = await operations.of_many(connection, [instance.operation_id for instance in local.values()])
        return merge(local, heard, policy=policy, installation=installation), asked

    async def _list(self, *, fresh: bool) -> tuple[_AccountRead | None, str | None]:
        """The provider's list, and a warning when it is old or missing."""
        held = self._lists.peek(_ALL)
        is_recent = held is not None and self._clock.monotonic() - held.began_at < self._answers.ttl_seconds
        self._lists.count(hit=is_recent and not fresh)
        if is_recent and not fresh:
            return held, None
        if self._flight is None or self._flight.done():
            self._asked_at = self._clock.monotonic()
            self._flight = asyncio.create_task(self._read())
            self._flight.add_done_callback(retrieve_error)
        try:
            listed = await self._in_time(self._flight)
        except CloudError as error:
            self._failed = True
            return held, _warning(held, f"the provider could not be asked: {error.message}")
        if listed is None:
            return held, _warning(held, "the provider did not answer in time")
        return listed, None

    async def _in_time(self, flight: asyncio.Task[_AccountRead]) -> _AccountRead | None:
        """The result of *flight* if it ends in time; it continues in any case, for later requests."""
        left = max(0.0, self._longest_wait() - (self._clock.monotonic() - self._asked_at))
        timer = asyncio.ensure_future(self._clock.sleep(left))
        try:
            await asyncio.wait([flight, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        return flight.result() if flight.done() else None

    def _longest_wait(self) -> float:
        if self._failed:
            return LEAST_WAIT_SECONDS
        if self._usual_seconds is None:
            return MOST_WAIT_SECONDS
        return min(max(LEAST_WAIT_SECONDS, USUAL_TIMES * self._usual_seconds), MOST_WAIT_SECONDS)

    async def _read(self) -> _AccountRead:
        began, began_at = self._clock.now(), self._clock.monotonic()
        try:
            listing = await self._cloud.instances()
        except CloudError as error:
            log.warning("listing.degraded", why=error.message)
            raise
        listed = _AccountRead(listing=listing, began=began, began_at=began_at)
        self._keep(listed)
        return listed

    def _keep(self, listed: _AccountRead) -> None:
        held = self._lists.peek(_ALL)
        if held is None or held.began_at <= listed.began_at:
            self._lists.put(_ALL, listed)
        self._usual_seconds = self._clock.monotonic() - listed.began_at
        self._failed = False


def _warning(held: _AccountRead | None, why: str) -> str:
    if held is None:
        return f"{why}; only Corral's own records are shown"
    return f"{why}; its part is as of {held.began:%H:%M:%S} UTC"
