"""
The housekeeping of the outbox.

Deliveries and their attempts are removed 30 days after they ended: long enough to look into a complaint about last
month, and to send again what a receiver lost. Events are kept for good; they are the record of what was done with
money. A pending delivery that nobody came for (its job failed for good) is put in line again.
"""

from __future__ import annotations

from datetime import timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.engine.events.publisher import SEND_WEBHOOK
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import deliveries

KEPT_FOR = timedelta(days=30)
FORGOTTEN_AFTER = timedelta(minutes=10)
"""Past its time by this much, a delivery waits for nobody; sooner, and we would chase a worker that is merely busy."""


def sweep(database: Database, queue: JobQueue, clock: Clock) -> JobType:
    """The job type that does it, every ten minutes: rarely enough to cost nothing."""

    async def handler(_run: JobRun) -> None:
        now = clock.now()
        async with database.transaction() as connection:
            removed = await deliveries.remove_ended(connection, now - KEPT_FOR)
            forgotten = await deliveries.overdue(connection, now - FORGOTTEN_AFTER)
            wanted = [
                NewJob(type=SEND_WEBHOOK, payload={"instanceId": each}, dedupe_key=f"overdue:{each}")
                for each in forgotten
            ]
            if wanted:
                await queue.add(wanted).run(connection)
        if removed or forgotten:
            log.info("deliveries.swept", removed=removed, resumed=len(forgotten))

    return JobType(name="sweep_deliveries", handler=handler, priority=Priority.LOW, every=timedelta(minutes=10))
