"""
Lookups of single instances that change, where a listing of the account takes long.

`domain/observation/direct_lookup.py` decides which and when.

The result is recorded like that of a listing. Lookups and the pages of a listing share one queue of the rate limiter,
so neither starves the other. A failed lookup changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError
from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.phases import ENDING, Phase
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


@dataclass(kw_only=True)
class DirectLookups:
    """Looks up changing instances; a new leader looks each up again, for one call each."""

    cloud: Cloud
    database: Database
    observations: Observations
    clock: Clock
    policy: Policy
    recent_lookups: RecentLookups
    _looked_up_at: dict[InstanceId, datetime] = field(default_factory=dict[InstanceId, datetime], init=False)

    async def run(self, phases: Collection[Phase], *, pages: int) -> None:
        """Look up the few in *phases* that have been due for longest; a listing has *pages* pages."""
        async with self.database.connection() as connection:
            moving = await instances.moving(connection, sorted(phases))
        self._looked_up_at = {each.id: self._looked_up_at[each.id] for each in moving if each.id in self._looked_up_at}
        # Apart, so that what comes up does not wait for hundreds of leases that end in the same minute.
        ending = [each for each in moving if each.phase in ENDING]
        coming_up = [each for each in moving if each.phase not in ENDING]
        chosen = [*self._due(coming_up, pages), *self._due(ending, pages)]
        tasks = [asyncio.ensure_future(self._look_up(instance)) for instance in chosen]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def _due(self, moving: Sequence[Instance], pages: int) -> list[Instance]:
        """The few of *moving* that have been due for longest."""
        due = due_for_lookup(moving, self._looked_up_at, self.clock.now(), self.policy)
        # If more instances change than a listing has pages, the listing shows more for each call.
        return due[: LOOKUPS_AT_ONCE if len(moving) <= pages else 1]

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
