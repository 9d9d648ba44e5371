"""Pausing the processing of jobs, on the real queue and the real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from support.clock.waiting import until
from support.engines.audit_lines import LINE, line_of

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.jobs.pause import Pause, PauseState
from corral.jobs.queue import JobQueue, JobStatus, NewJob
from corral.jobs.registry import JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.session.database import Database


@asynccontextmanager
async def working(worker: Worker, release: asyncio.Event) -> AsyncGenerator[None]:
    """Run *worker*; at the end its handlers are released, so that a failed assertion does not wait for them."""
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        release.set()
        await worker.stop(grace_seconds=30)
        await asyncio.wait_for(task, 60)


async def test_no_job_starts_while_paused_and_all_continue_after_it(database: Database) -> None:
    """A running job may end; one that was taken ahead goes back, and a resume does not wait for the next poll."""
    begun, release = list[object](), asyncio.Event()

    async def handler(run: JobRun) -> None:
        begun.append(run.payload["n"])
        await release.wait()

    registry, pause = Registry(), Pause()
    registry.add(JobType(name="deed", handler=handler))
    queue = JobQueue(database, registry)
    worker = Worker(
        database,
        registry,
        queue,
        clock=SystemClock(),
        metrics=Metrics(),
        concurrency=1,
        pause=pause,
        dequeue_timeout=timedelta(hours=1),
    )

    async def has(status: JobStatus, count: int) -> bool:
        return (await queue.stats()).by_status[status] == count

    async def enqueue(*numbers: int) -> None:
        async with database.transaction() as connection:
            await queue.add([NewJob(type="deed", payload={"n": n}) for n in numbers]).run(connection)

    async with working(worker, release):
        await enqueue(0, 1)
        await until(lambda: begun == [0])
        pause.note(await queue.pause(LINE))
        release.set()
        await until(lambda: has(JobStatus.COMPLETED, 1), what="the end of the running job alone")
        await until(lambda: has(JobStatus.PENDING, 1), what="the return of the job taken ahead")
        await enqueue(2)
        await until(lambda: has(JobStatus.PENDING, 2))
        assert begun == [0]

        pause.note(await queue.resume(LINE))
        await until(lambda: has(JobStatus.COMPLETED, 3))

    assert sorted(begun, key=str) == [0, 1, 2]


async def test_a_pause_is_shared_by_all_processes_with_caller_and_time(database: Database) -> None:
    """A second pause does not take the place of the first."""
    queue = JobQueue(database, Registry())
    first = await queue.pause(line_of("ops"))
    second = await queue.pause(line_of("other"))

    assert (first.by, first.is_paused) == ("ops", True)
    assert second == first == await JobQueue(database, Registry()).paused()
    assert await queue.resume(LINE) == await queue.paused() == PauseState()


async def test_a_job_that_was_taken_ahead_is_pending_until_it_has_a_place(database: Database) -> None:
    """A worker takes twice what it runs, so that the next is at hand; `processing` is what runs."""
    registry = Registry()
    release = asyncio.Event()

    async def handler(_run: JobRun) -> None:
        await release.wait()

    registry.add(JobType(name="deed", handler=handler))
    queue = JobQueue(database, registry)
    worker = Worker(database, registry, queue, clock=SystemClock(), metrics=Metrics(), concurrency=2)
    async with database.transaction() as connection:
        await queue.add([NewJob(type="deed", payload={"n": n}) for n in range(5)]).run(connection)
        await connection.execute(
            "INSERT INTO corral_processes (id, role, place, seats) VALUES ($1, 'worker', '', 2)", worker.process_id
        )

    async def are_taken() -> bool:
        async with database.connection() as connection:
            return bool(await connection.fetchval("SELECT count(*) = 4 FROM corral_pgqueuer WHERE status = 'picked'"))

    async with working(worker, release):
        await until(are_taken)
        stats, backlog = await queue.stats(), await queue.backlog()
        processing = await queue.find(status=JobStatus.PROCESSING)

    assert (stats.by_status[JobStatus.PROCESSING], stats.by_status[JobStatus.PENDING]) == (2, 3)
    assert (backlog.by_status[JobStatus.PROCESSING], backlog.by_status[JobStatus.PENDING]) == (2, 3)
    assert [view.payload["n"] for view in processing] == [1, 0]
