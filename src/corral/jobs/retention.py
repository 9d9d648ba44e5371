"""The housekeeping of the queue itself: finished jobs are removed after a day."""

from __future__ import annotations

from datetime import timedelta

from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Priority
from corral.telemetry import log

KEPT_FOR = timedelta(hours=24)


def sweep(queue: JobQueue) -> JobType:
    """The job type that does it, every ten minutes: rarely enough to cost nothing, often enough to stay small."""

    async def handler(_run: JobRun) -> None:
        removed = await queue.cleanup(KEPT_FOR)
        if removed:
            log.info("jobs.swept", removed=removed)

    return JobType(name="sweep_jobs", handler=handler, priority=Priority.LOW, every=timedelta(minutes=10))
