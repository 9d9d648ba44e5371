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
from corral.engine.observe.observations import Observations
from corral.store.session.database import Database
from corral.store.tables import instances

SHARE_OF_LIMIT: Final = 0.2
"""Of the rate limit, for these lookups. More, and the pages that show most machines come later; less, and after
deletions, each of which makes the list skip a machine, one that has vanished is looked up later."""
AT_ONCE: Final = 10
"""Lookups in one round. More, and other lookups wait for them; fewer, and a high rate limit is not used."""
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
    _seen_at: dict[ProviderId, float] = field(default_factory=dict[ProviderId, float], init=False)
    _unseen: deque[_Machine] = field(default_factory=deque[_Machine], init=False)
    _searched_at: float = field(default=0.0, init=False)
    _ran_at: float = field(default=0.0, init=False)

    def note(self, page: Iterable[ProviderInstance]) -> None:
        """Note that a page of the list showed these machines."""
        now = self.clock.monotonic()
        self._seen_at.update((ProviderId(seen.id), now) for seen in page)

    async def run(self, *, cycle_seconds: float) -> None:
        """Look up the few that were not seen for longest; *cycle_seconds* is the time in which every page is read."""
        now = self.clock.monotonic()
        if now - self._searched_at >= SEARCH_SECONDS:
            self._searched_at = now
            await self._search(now, cycle_seconds)
        count = min(AT_ONCE, int((now - self._ran_at) * self.calls_per_minute() * SHARE_OF_LIMIT / 60))
        while count and self._unseen:
            self._ran_at = now
            instance_id, provider_id = self._unseen.popleft()
            if self._seen_at[provider_id] < self._searched_at:  # no page showed it since
                count -= 1
                await self._look_up(instance_id, provider_id)

    async def _search(self, now: float, cycle_seconds: float) -> None:
        async with self.database.connection() as connection:
            machines = await instances.expected_machines(connection)
        self._seen_at = {provider_id: self._seen_at.get(provider_id, now) for _, provider_id in machines}
        unseen = longest_unseen(self._seen_at, now, cycle_seconds)
        owners = {provider_id: instance_id for instance_id, provider_id in machines}
        self._unseen = deque((owners[provider_id], provider_id) for provider_id in unseen)

    async def _look_up(self, instance_id: InstanceId, provider_id: ProviderId) -> None:
        began = self.clock.now()
        try:
            seen = await self.cloud.instance(provider_id)
        except CloudError as error:
            log.info("observer.lookup_failed", instance_id=instance_id, why=error.message)
            return
        self._seen_at[provider_id] = self.clock.monotonic()
        if seen is None:
            log.warning("observer.machine_unseen", instance_id=instance_id, provider_id=provider_id)
        await self.observations.record_one(instance_id, seen, began=began, unseen=True)
