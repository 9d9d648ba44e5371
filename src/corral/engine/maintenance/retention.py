"""
How long deliveries and audit lines are kept.

Deliveries and their attempts are deleted 30 days after they ended: long enough to investigate a complaint about last
month, and to redeliver what a receiver lost. Events are kept for good; they are the record of what was billed. A
pending delivery without a job (its job failed for good) gets a new one.
"""

from __future__ import annotations

from datetime import timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.engine.events.publisher import SEND_WEBHOOK
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import audit, deliveries

DELIVERIES_KEPT_FOR = timedelta(days=30)
AUDIT_KEPT_FOR = timedelta(days=90)
LATE_AFTER = timedelta(minutes=10)
"""A delivery this late has lost its job. Shorter, and a busy worker's deliveries get a second job."""


def sweep_deliveries(database: Database, queue: JobQueue, clock: Clock) -> JobType:
    """The job type that removes old deliveries and resumes late ones, every ten minutes."""

    async def handler(_run: JobRun) -> None:
        now = clock.now()
        async with database.transaction() as connection:
            removed = await deliveries.remove_ended(connection, now - DELIVERIES_KEPT_FOR)
            late = await deliveries.overdue(connection, now - LATE_AFTER)
            wanted = [
                NewJob(type=SEND_WEBHOOK, payload={"instanceId": each}, dedupe_key=f"overdue:{each}") for each in late
            ]
            if wanted:
                await queue.add(wanted).run(connection)
        if removed or late:
            log.info("deliveries.swept", removed=removed, resumed=len(late))

    return JobType(name="sweep_deliveries", handler=handler, priority=Priority.LOW, every=timedelta(minutes=10))


def sweep_audit(database: Database, clock: Clock) -> JobType:
    """The job type that removes old lines of the audit log, once an hour."""

    async def handler(_run: JobRun) -> None:
        async with database.connection() as connection:
            removed = await audit.sweep(connection, clock.now() - AUDIT_KEPT_FOR)
        if removed:
            log.info("audit.swept", removed=removed)

    return JobType(name="sweep_audit", handler=handler, priority=Priority.LOW, every=timedelta(hours=1))
