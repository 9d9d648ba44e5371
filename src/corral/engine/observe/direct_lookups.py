"""
Lookups of single instances that change, where a listing of the account takes long.

`domain/observation/direct_lookup.py` decides which and when.

The result is recorded like that of a listing. Lookups and the pages of a listing share one queue of the rate limiter,
so neither starves the other. A failed lookup changes nothing. Instances that come up and those that end are looked up
apart: what comes up does not wait for hundreds of leases that end in the same minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from corral.base.clock import Clock, is_set_within
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError
from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.direct_lookup import due_for_lookup
from corral.domain.observation.sighting import Sighting
from corral.engine.observe.observations import Observations
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.reconcile.outcome import provider_id
from corral.store.session.database import Database
from corral.store.tables import instances

LOOKUPS_AT_ONCE: Final = 4
"""As many as a listing reads pages at once. More, and listings take longer; fewer, and changes show later."""
HANGING_SECONDS: Final = 10.0
"""
After which a lookup no longer counts as one of these, though it goes on: it has hung, or waits for the rate limit.

Shorter, and the queue for the rate limit becomes longer when it is used up; longer, and a few machines whose lookups
hang delay all others by as much.
"""
MOST_UNDER_WAY: Final = 20
"""With those that hang. Fewer, and so many hanging lookups delay all others; more, and other reads wait for them."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    task: asyncio.Task[None]
    began: float
    """By the monotonic clock."""


@dataclass(kw_only=True)
class DirectLookups:
    """Looks up instances in the given phases; a new leader looks each up again, for one call each."""

    phases: Collection[Phase]
    cloud: Cloud
    database: Database
    observations: Observations
    clock: Clock
    policy: Policy
    recent_lookups: RecentLookups
    pages: Callable[[], int]
    """Of a listing."""
    _looked_up_at: dict[InstanceId, datetime] = field(default_factory=dict[InstanceId, datetime], init=False)

    async def run(self) -> None:
        """
        Look up the few that have been due for longest.

        Returns when no lookup is under way. While one hangs, further ones are begun at every poll interval.
        """
        under_way: dict[InstanceId, _Lookup] = {}
        try:
            while True:
                for instance in await self._due(under_way):
                    task = asyncio.create_task(self._look_up(instance))
                    under_way[instance.id] = _Lookup(task, self.clock.monotonic())
                await self._ended_within_poll(under_way)
                for instance_id in [each for each, lookup in under_way.items() if lookup.task.done()]:
                    under_way.pop(instance_id).task.result()
                if not under_way:
                    return
        finally:
            for lookup in under_way.values():
                lookup.task.cancel()

    async def _due(self, under_way: Mapping[InstanceId, _Lookup]) -> list[Instance]:
        """The few that have been due for longest."""
        async with self.database.connection() as connection:
            moving = await instances.moving(connection, sorted(self.phases))
        self._looked_up_at = {each.id: self._looked_up_at[each.id] for each in moving if each.id in self._looked_up_at}
        due = due_for_lookup(moving, self._looked_up_at, self.clock.now(), self.policy)
        # If more instances change than a listing has pages, the listing shows more for each call.
        most = LOOKUPS_AT_ONCE if len(moving) <= self.pages() else 1
        recently = self.clock.monotonic() - HANGING_SECONDS
        most -= sum(lookup.began > recently for lookup in under_way.values())
        return [each for each in due if each.id not in under_way][: max(0, min(most, MOST_UNDER_WAY - len(under_way)))]

    async def _ended_within_poll(self, under_way: Mapping[InstanceId, _Lookup]) -> None:
        """Wait until all lookups have ended, at most for the poll interval."""
        ended = asyncio.Event()
        together = asyncio.gather(*(lookup.task for lookup in under_way.values()), return_exceptions=True)
        together.add_done_callback(lambda _: ended.set())
        await is_set_within(ended, self.policy.poll.total_seconds(), self.clock)

    async def _look_up(self, instance: Instance) -> None:
        began = self._looked_up_at[instance.id] = self.clock.now()
        try:
            seen = await self.cloud.instance(provider_id(instance))
        except CloudError as error:
            log.info("observer.lookup_failed", instance_id=instance.id, why=error.message)
            return
        if seen is not None and seen.sighting is Sighting.RUNNING:
            self.recent_lookups.keep(seen, began)
        await self.observations.record_one(instance.id, seen, began=began)
