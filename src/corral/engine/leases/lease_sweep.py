"""
Makes leases due that no reconcile is planned for.

A process of an earlier release knows no leases: an instance that it makes ready during an upgrade has no due time.
"""

from __future__ import annotations

from datetime import timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import leases


def sweep_leases(database: Database, clock: Clock) -> JobType:
    """The job type that has each of them reconciled, which plans its next reconcile; every minute."""

    async def handler(_run: JobRun) -> None:
        async with database.connection() as connection:
            found = await leases.wake_unplanned(connection, clock.now())
        if found:
            log.info("leases.unplanned", instances=found)

    return JobType(name="sweep_leases", handler=handler, priority=Priority.LOW, every=timedelta(minutes=1))
