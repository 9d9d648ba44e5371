"""Whether an instance has no machine yet, by a lookup of its name: for creates that no listing allows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError
from corral.domain.instance import Instance
from corral.domain.observation.sighting import GOING
from corral.engine.observe.name_filter import NameFilter
from corral.engine.observe.observations import Observations

AT_ONCE: Final = 4
"""Lookups at a time. More, and creates that wait take the calls and database connections that others need; fewer, and
many of them are sent later."""
FILTER_KNOWN_SECONDS: Final = 10.0
"""How long it is taken for known whether the filter works. Longer, and creates rely on a list that has gone wrong;
shorter, and every create costs two lookups."""


@dataclass(kw_only=True)
class UncreatedInstances:
    """Looks for machines of instances that have none in the records."""

    filter: NameFilter
    observations: Observations
    clock: Clock
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE), init=False)
    _check_lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _last_check: tuple[float, bool] | None = field(default=None, init=False)
    """When the filter was last checked, and whether it works."""

    @classmethod
    def of(cls, cloud: Cloud, observations: Observations) -> UncreatedInstances:
        """One that records what it finds with *sightings*."""
        names = NameFilter(cloud=cloud, database=observations.database, installation=observations.installation)
        return cls(filter=names, observations=observations, clock=observations.clock)

    async def has_no_machine(self, instance: Instance) -> bool:
        """Whether the provider surely has no machine of *instance*; one that is found is recorded."""
        try:
            async with self._slots:
                if not await self._filter_works():
                    return False
                began = self.clock.now()
                found = await self.filter.attempts(instance.id)
                there = [seen for seen in found.instances if seen.sighting not in GOING]
                if there:
                    log.warning("create.machine_found", instance_id=instance.id, provider_id=there[0].id)
                    await self.observations.record(found, began=began)
                    return False
                if not found.complete or not await self._filter_works():
                    return False
        except CloudError as error:
            log.warning("create.name_lookup_failed", why=error.message)
            return False
        log.info("create.allowed_by_name_lookup")
        return True

    async def _filter_works(self) -> bool:
        async with self._check_lock:
            now = self.clock.monotonic()
            if self._last_check is None or now - self._last_check[0] >= FILTER_KNOWN_SECONDS:
                self._last_check = now, await self.filter.finds_beginnings()
            return self._last_check[1]
