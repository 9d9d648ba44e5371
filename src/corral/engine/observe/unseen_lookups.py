"""
Lookups of machines that no page of the list has shown for a while, where the list changes too often to be complete.

A page that was read while the list changed still proves that its machines exist. So a machine that no page showed for
longer than the whole list takes is looked up by its id, within a share of the rate limit, the longest unseen first.
If that does not find it either, its reconcile confirms the absence by further lookups, as after a complete listing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError
from corral.domain.instance import InstanceId, ProviderId
from corral.domain.observation.direct_lookup import longest_unseen
from corral.domain.observation.sighting import ProviderInstance
from corral.engine.observe.lookup_slots import LookupSlots
from corral.engine.observe.observations import Observations
from corral.store.session.database import Database
from corral.store.tables import instances

SHARE_OF_LIMIT: Final = 0.2
"""Of the rate limit, for these lookups. More, and the pages that show most machines come later; less, and after
deletions, each of which makes the list skip a machine, one that has vanished is looked up later."""
ROUND_SECONDS: Final = 0.5
"""How often lookups are begun while others are under way: not more at once than their share allows in a second."""
SEARCH_SECONDS: Final = 10.0
"""How often all records are searched for machines that were not seen. Shorter costs CPU time; longer, and a vanished
machine is noticed later by as much."""

_Machine = tuple[InstanceId, ProviderId]


@dataclass(kw_only=True)
class UnseenLookups:
    """When each machine was last seen; a new leader counts from when it first reads the record of the machine."""

    cloud: Cloud
    database: Database
    observations: Observations
    clock: Clock
    calls_per_minute: Callable[[], int]
    cycle_seconds: Callable[[], float]
    """The time in which every page is read."""
    _seen_at: dict[ProviderId, float] = field(default_factory=dict[ProviderId, float], init=False)
    _unseen: deque[_Machine] = field(default_factory=deque[_Machine], init=False)
    _searched_at: float = field(default=0.0, init=False)
    _ran_at: float = field(default=0.0, init=False)

    def note(self, page: Iterable[ProviderInstance]) -> None:
        """Note that a page of the list showed these machines."""
        now = self.clock.monotonic()
        self._seen_at.update((ProviderId(seen.id), now) for seen in page)

    async def run(self) -> None:
        """
        Look up the few that were not seen for longest.

        Returns when no lookup is under way. While one hangs, further ones are begun.
        """
        slots, is_over = LookupSlots(self.clock), False
        try:
            while not is_over:
                for instance_id, provider_id in await self._due(slots):
                    slots.begin(instance_id, self._look_up(instance_id, provider_id))
                is_over = await slots.ended_within(ROUND_SECONDS)
        finally:
            slots.close()

    async def _due(self, slots: LookupSlots) -> list[_Machine]:
        now = self.clock.monotonic()
        if now - self._searched_at >= SEARCH_SECONDS:
            self._searched_at = now
            await self._search(now)
        a_second = self.calls_per_minute() * SHARE_OF_LIMIT / 60
        count = min(slots.free(max(1, int(a_second))), int((now - self._ran_at) * a_second))
        found: list[_Machine] = []
        while self._unseen and len(found) < count:
            instance_id, provider_id = self._unseen.popleft()
            # No page showed it since.
            if self._seen_at[provider_id] < self._searched_at and instance_id not in slots:
                found.append((instance_id, provider_id))
        self._ran_at = now if found else self._ran_at
        return found

    async def _search(self, now: float) -> None:
        async with self.database.connection() as connection:
            machines = await instances.expected_machines(connection)
        self._seen_at = {provider_id: self._seen_at.get(provider_id, now) for _, provider_id in machines}
        unseen = longest_unseen(self._seen_at, now, self.cycle_seconds())
        owners = {provider_id: instance_id for instance_id, provider_id in machines}
        self._unseen = deque((owners[provider_id], provider_id) for provider_id in unseen)

    async def _look_up(self, instance_id: InstanceId, provider_id: ProviderId) -> None:
        began = self.clock.now()
        try:
            seen = await self.cloud.instance(provider_id, unseen=True)
        except CloudError as error:
            log.info("observer.lookup_failed", instance_id=instance_id, why=error.message)
            return
        self._seen_at[provider_id] = self.clock.monotonic()
        if seen is None:
            log.warning("observer.machine_unseen", instance_id=instance_id, provider_id=provider_id)
        await self.observations.record_one(instance_id, seen, began=began, unseen=True)
