"""
Lookups of single instances that change, where a listing of the account takes long.

`domain/observation/direct_lookup.py` decides which and when.

The result is recorded like that of a listing. Lookups and the pages of a listing share one queue of the rate limiter,
so neither starves the other. A failed lookup changes nothing. Instances that come up and those that end are looked up
apart: what comes up does not wait for hundreds of leases that end in the same minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.errors import CircuitOpenError, CloudError
from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.direct_lookup import due_for_lookup
from corral.domain.observation.sighting import Sighting
from corral.engine.observe.lookup_slots import LookupSlots
from corral.engine.observe.observations import Observations
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.reconcile.outcome import provider_id
from corral.store.session.database import Database
from corral.store.tables import instances

LOOKUPS_AT_ONCE: Final = 4
"""As many as a listing reads pages at once. More, and listings take longer; fewer, and changes show later."""


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
    pages: Callable[[], int | None]
    """Of a listing; None: listings fail or hang."""
    _looked_up_at: dict[InstanceId, datetime] = field(default_factory=dict[InstanceId, datetime], init=False)

    async def run(self) -> None:
        """
        Look up the few that have been due for longest.

        Returns when no lookup is under way. While one hangs, further ones are begun at every poll interval.
        """
        slots, is_over = LookupSlots(self.clock), False
        try:
            while not is_over:
                for instance in await self._due(slots):
                    slots.begin(instance.id, self._look_up(instance))
                is_over = await slots.ended_within(self.policy.poll.total_seconds())
        finally:
            slots.close()

    async def _due(self, slots: LookupSlots) -> list[Instance]:
        """The few that have been due for longest."""
        async with self.database.connection() as connection:
            moving = await instances.moving(connection, sorted(self.phases))
        self._looked_up_at = {each.id: self._looked_up_at[each.id] for each in moving if each.id in self._looked_up_at}
        due = due_for_lookup(moving, self._looked_up_at, self.clock.now(), self.policy)
        # If more instances change than a listing has pages, the listing shows more for each call, if it shows any.
        pages = self.pages()
        most = LOOKUPS_AT_ONCE if pages is None or len(moving) <= pages else 1
        return [each for each in due if each.id not in slots][: slots.free(most)]

    async def _look_up(self, instance: Instance) -> None:
        before = self._looked_up_at.get(instance.id)
        began = self._looked_up_at[instance.id] = self.clock.now()
        try:
            seen = await self.cloud.instance(provider_id(instance))
        except CircuitOpenError:  # nothing was sent: it stays due
            if before is None:
                del self._looked_up_at[instance.id]
            else:
                self._looked_up_at[instance.id] = before
            return
        except CloudError as error:
            log.info("observer.lookup_failed", instance_id=instance.id, why=error.message)
            return
        if seen is not None and seen.sighting is Sighting.RUNNING:
            self.recent_lookups.keep(seen, began)
        await self.observations.record_one(instance.id, seen, began=began)
