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
from corral.domain.observation.matching import GOING
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
    sightings: Observations
    clock: Clock
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE), init=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _works: tuple[float, bool] | None = field(default=None, init=False)
    """When it was last asked whether the filter works, and the answer."""

    @classmethod
    def of(cls, cloud: Cloud, sightings: Observations) -> UncreatedInstances:
        """One that records what it finds with *sightings*."""
        names = NameFilter(cloud=cloud, database=sightings.database, installation=sightings.installation)
        return cls(filter=names, sightings=sightings, clock=sightings.clock)

    async def is_unmade(self, instance: Instance) -> bool:
        """Whether the provider surely has no machine of *instance*; one that is found is recorded."""
        try:
            async with self._turns:
                if not await self._filter_works():
                    return False
                began = self.clock.now()
                found = await self.filter.attempts(instance.id)
                there = [seen for seen in found.instances if seen.sighting not in GOING]
                if there:
                    log.warning("create.machine_found", instance_id=instance.id, provider_id=there[0].id)
                    await self.sightings.record(found, began=began)
                    return False
                if not found.complete or not await self._filter_works():
                    return False
        except CloudError as error:
            log.warning("create.name_lookup_failed", why=error.message)
            return False
        log.info("create.allowed_by_name_lookup")
        return True

    async def _filter_works(self) -> bool:
        async with self._asking:
            now = self.clock.monotonic()
            if self._works is None or now - self._works[0] >= FILTER_KNOWN_SECONDS:
                self._works = now, await self.filter.finds_beginnings()
            return self._works[1]
