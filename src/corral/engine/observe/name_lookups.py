"""
Looking for creates in doubt by their names, if listings of the whole account take long or are not trusted.

The provider's list has a name filter: one call settles one create, however large the account is. A machine that it
finds is adopted. An empty result counts like a listing without the name, if the filter works (`name_filter.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.domain.errors import CloudError
from corral.domain.instance import Instance, InstanceId
from corral.engine.observe.name_filter import NameFilter
from corral.engine.observe.observations import Observations
from corral.engine.observe.settle_timer import SettleTimer
from corral.store.session.database import Database
from corral.store.tables import instances

AT_ONCE: Final = 4
"""Lookups in one round. More, and creates in doubt take the calls that other lookups need; fewer, and many of them, as
after an outage, are resolved later."""
FIRST_PAUSE_SECONDS: Final = 5.0
"""Between two lookups of one name; doubles, because most machines show within seconds or never."""
LAST_PAUSE_SECONDS: Final = 30.0
"""The longest such pause: it delays the next attempt after a create that certainly did not happen."""

_Attempt = tuple[InstanceId, int]


@dataclass(kw_only=True)
class NameLookups:
    """Resolves creates in doubt; a new leader starts its pauses again."""

    filter: NameFilter
    database: Database
    observations: Observations
    clock: Clock
    settle_timer: SettleTimer
    _asked: dict[_Attempt, tuple[float, float]] = field(default_factory=dict[_Attempt, tuple[float, float]], init=False)
    """When the name was first and last looked up."""

    async def run(self) -> None:
        """Look up the names that are due; an unreachable provider changes nothing."""
        async with self.database.connection() as connection:
            doubtful = await instances.in_doubt(connection)
        now = self.clock.monotonic()
        settled = self.settle_timer.settled(doubtful, began=now)
        known = {(each.id, each.create.number) for each in doubtful}
        self._asked = {key: times for key, times in self._asked.items() if key in known}
        due = [each for each in doubtful if each.create.doubted_at is not None and self._is_due(each, now)]
        try:
            await self._look_up(due[:AT_ONCE], settled)
        except CloudError as error:
            log.warning("observer.name_lookup_failed", why=error.message)

    async def _look_up(self, due: list[Instance], settled: frozenset[InstanceId]) -> None:
        absent: list[tuple[Instance, datetime]] = []
        for instance in due:
            now = self.clock.monotonic()
            first, _ = self._asked.get((instance.id, instance.create.number), (now, now))
            self._asked[instance.id, instance.create.number] = first, now
            began = self.clock.now()
            found = await self.filter.attempt(instance, instance.create.number)
            if found.instances:
                await self.observations.record_named(instance, found.instances[0], began=began)
            elif found.complete and instance.id in settled and not self._is_over(instance):
                absent.append((instance, began))
        if absent and await self.filter.finds_names():
            for instance, began in absent:
                await self.observations.record_unnamed(instance, began=began)

    def _is_over(self, instance: Instance) -> bool:
        """Whether the doubt is over: another count would only discard the reconcile that is about to create again."""
        return instance.create.listings_without >= self.observations.policy.settle_listings

    def _is_due(self, instance: Instance, now: float) -> bool:
        asked = self._asked.get((instance.id, instance.create.number))
        if asked is None:
            return True
        first, last = asked
        return now - last >= min(max(last - first, FIRST_PAUSE_SECONDS), LAST_PAUSE_SECONDS)
