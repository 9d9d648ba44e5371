"""Deletes finished jobs, and responses stored under idempotency keys, after a day."""

from __future__ import annotations

from datetime import timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import idempotency

KEPT_FOR = timedelta(hours=24)
EVERY = timedelta(minutes=10)
"""Less often, and the tables grow; more often only adds statements."""


def sweep(queue: JobQueue) -> JobType:
    """The job type that removes finished jobs."""

    async def handler(_run: JobRun) -> None:
        removed = await queue.cleanup(KEPT_FOR, None)
        if removed:
            log.info("jobs.swept", removed=removed)

    return JobType(name="sweep_jobs", handler=handler, priority=Priority.LOW, every=EVERY)


def sweep_answers(database: Database, clock: Clock) -> JobType:
    """The job type that removes responses with expired keys."""

    async def handler(_run: JobRun) -> None:
        async with database.connection() as connection:
            removed = await idempotency.sweep(connection, clock.now())
        if removed:
            log.info("answers.swept", removed=removed)

    return JobType(name="sweep_answers", handler=handler, priority=Priority.LOW, every=EVERY)
