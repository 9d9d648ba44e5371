"""
Makes leases due that no reconcile is planned for, or one at a wrong time.

A process of an earlier release knows no leases: an instance that it makes ready during an upgrade has no due time. What
was planned before the database's clock was set back may be hours or years away.
"""

from __future__ import annotations

from datetime import timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.domain.leases.decide import LATE
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import leases


def sweep_leases(database: Database, clock: Clock) -> JobType:
    """The job type that has each of them reconciled, which plans its next reconcile; every minute."""

    async def handler(_run: JobRun) -> None:
        async with database.connection() as connection:
            now = clock.now()
            found = await leases.wake_unplanned(connection, now, latest=now + LATE)
        if found:
            log.info("leases.unplanned", instances=found)

    return JobType(name="sweep_leases", handler=handler, priority=Priority.LOW, every=timedelta(minutes=1))
