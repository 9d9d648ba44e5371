"""
How long deliveries, history, finished jobs and the responses stored under idempotency keys are kept.

Every sweep runs every ten minutes. Finished jobs, and responses under a key, are deleted after a day.

Deliveries and their attempts are deleted 30 days after they ended: long enough to investigate a complaint about last
month, and to redeliver what a receiver lost. A pending delivery without a job (its job failed for good) gets a new one.

History is deleted after CORRAL_EVENT_RETENTION days: events, audit lines, operations that were followed by another,
times to ready, and instances that were terminated so long ago. A machine that appears later under the name of such an
instance is reported as an orphan. Measurements of instances without an idle rule are deleted at once.
"""

from __future__ import annotations

from datetime import timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.engine.events.publisher import SEND_WEBHOOK
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import deliveries, events, leases, sealed_secrets
from corral.store.tables.callers import idempotency
from corral.store.tables.fleet import history

EVERY = timedelta(minutes=10)
"""Less often, and the tables grow; more often only adds statements."""
JOBS_KEPT_FOR = timedelta(hours=24)
DELIVERIES_KEPT_FOR = timedelta(days=30)
LATE_AFTER = timedelta(minutes=10)
"""A delivery this late has lost its job. Shorter, and a busy worker's deliveries get a second job."""
STEP = 1000
"""Rows of history that one statement deletes. More, and writers wait longer for its locks; fewer, and it is slower."""
MOST_STEPS = 50
"""Of one kind in one sweep, so that the first sweep over years does not occupy a worker for long."""


def sweeps(database: Database, queue: JobQueue, clock: Clock, event_retention_days: int) -> list[JobType]:
    """Every job type of this module."""
    return [
        sweep_deliveries(database, queue, clock),
        sweep_history(database, clock, timedelta(days=event_retention_days)),
        sweep_jobs(queue),
        sweep_answers(database, clock),
    ]


def sweep_deliveries(database: Database, queue: JobQueue, clock: Clock) -> JobType:
    """The job type that removes old deliveries and resumes late ones."""

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

    return JobType(name="sweep_deliveries", handler=handler, priority=Priority.LOW, every=EVERY)


def sweep_history(database: Database, clock: Clock, kept_for: timedelta) -> JobType:
    """The job type that removes what is older than *kept_for*."""

    async def handler(_run: JobRun) -> None:
        before = clock.now() - kept_for
        async with database.connection() as connection:
            await events.last(connection)  # numbers what no reader has read yet: only numbered events are deleted
        for what in history.PRUNED:
            removed = step = 0
            for _ in range(MOST_STEPS):
                async with database.connection() as connection:
                    step = await history.prune(connection, what, before=before, limit=STEP)
                removed += step
                if step < STEP:
                    break
            if removed:
                log.info("history.swept", what=what, removed=removed)
        async with database.connection() as connection:
            unneeded = {
                "secrets": await sealed_secrets.sweep(connection),
                "measurements": await leases.sweep_samples(connection),
            }
        for what, removed in unneeded.items():
            if removed:
                log.info("history.swept", what=what, removed=removed)

    # The name that earlier releases gave their sweep of the audit log: one that they left in the queue is run.
    return JobType(name="sweep_audit", handler=handler, priority=Priority.LOW, every=EVERY)


def sweep_jobs(queue: JobQueue) -> JobType:
    """The job type that removes finished jobs."""

    async def handler(_run: JobRun) -> None:
        removed = await queue.cleanup(JOBS_KEPT_FOR, None)
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
