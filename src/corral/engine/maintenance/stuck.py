"""Instances that make no progress: logged when they are first found, and listed for the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import IN_MOTION
from corral.domain.observation.stuck import SHORTEST, Stuck, stuck
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import instances


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckSweep:
    """Finds stuck instances."""

    database: Database
    clock: Clock
    _logged: set[tuple[InstanceId, datetime]] = field(default_factory=set[tuple[InstanceId, datetime]], init=False)
    """The instances this process has logged, and since when each was stuck."""

    def job_type(self) -> JobType:
        """The sweep, every minute."""
        return JobType(name="sweep_stuck", handler=self.sweep, priority=Priority.LOW, every=timedelta(minutes=1))

    async def find(self) -> list[Stuck]:
        """All instances that are stuck now, the longest first."""
        now = self.clock.now()
        async with self.database.connection() as connection:
            suspects = await instances.possibly_stuck(connection, sorted(IN_MOTION), before=now - SHORTEST)
        found = [each for instance in suspects if (each := stuck(instance, now)) is not None]
        return sorted(found, key=lambda each: (each.since, each.instance_id))

    async def sweep(self, _run: JobRun) -> None:
        """Log the instances that were not stuck before."""
        found = await self.find()
        for each in found:
            if (each.instance_id, each.since) not in self._logged:
                log.warning("instance.stuck", instance_id=each.instance_id, phase=each.phase, why=each.reason)
        self._logged.clear()
        self._logged.update((each.instance_id, each.since) for each in found)
