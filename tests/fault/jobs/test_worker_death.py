"""A worker killed in the middle of its work."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from support.clock.waiting import until

from corral.jobs.queue import JobQueue, JobStatus, NewJob
from corral.jobs.registry import JobRun, JobType, Registry
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

WORKER = Path(__file__).parents[2] / "support" / "processes" / "worker_process.py"


async def test_jobs_of_a_killed_worker_end_on_another_and_no_deed_is_done_twice(
    database: Database, target: DatabaseTarget
) -> None:
    """SIGKILL with 20 jobs running: all 20 are taken over, and what was already recorded is not repeated."""
    queue = JobQueue(database, _registry())
    async with database.transaction() as connection:
        # `deeds` has no unique key on purpose: a deed done twice would show.
        await connection.execute("CREATE TABLE runs (job_id bigint); CREATE TABLE deeds (job_id bigint)")
        await queue.add([NewJob(type="deed", payload={"n": n}) for n in range(20)]).run(connection)

    first = await _start(target, "hang")
    await until(lambda: _count(database, "SELECT count(*) = 20 FROM runs"), what="20 jobs running")
    first.send_signal(signal.SIGKILL)
    await first.wait()
    assert await _count(database, "SELECT count(*) FROM deeds") == 10

    second = await _start(target, "work")
    await until(lambda: _has_completed(queue, 20), what="all 20 jobs ending on another worker")
    second.send_signal(signal.SIGKILL)
    await second.wait()

    assert await _count(database, "SELECT count(*) FROM runs") == 40
    assert await _count(database, "SELECT count(*) FROM deeds") == 20
    assert await _count(database, "SELECT count(DISTINCT job_id) FROM deeds") == 20


async def _start(target: DatabaseTarget, mode: str) -> asyncio.subprocess.Process:
    assert target.host is not None
    assert target.database is not None
    return await asyncio.create_subprocess_exec(sys.executable, str(WORKER), target.host, target.database, mode)


async def _count(database: Database, question: str) -> object:
    async with database.connection() as connection:
        return await connection.fetchval(question)


async def _has_completed(queue: JobQueue, count: int) -> bool:
    return (await queue.stats()).by_status[JobStatus.COMPLETED] == count


def _registry() -> Registry:
    async def unused(_run: JobRun) -> None:
        """Stand for the handler, which runs in other processes."""

    registry = Registry()
    registry.add(JobType(name="deed", handler=unused))
    return registry
