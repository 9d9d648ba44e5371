"""The database goes away and comes back, under load."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from support.clock.waiting import until

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.domain.errors import StoreUnavailableError
from corral.jobs.pgqueuer_adapter import install
from corral.jobs.queue import JobQueue, JobStatus, NewJob
from corral.jobs.registry import JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.server.cluster_location import locate
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.migrate import migrate
from corral.store.session.database import Database


@pytest.mark.parametrize("death", [signal.SIGINT, signal.SIGKILL], ids=["orderly", "killed"])
async def test_no_committed_job_is_lost_when_postgresql_restarts(short_dir: Path, death: signal.Signals) -> None:
    """Whatever was committed runs; the worker and the pool come back by themselves."""
    data_dir = short_dir / f"restarted-{death.name}"
    server = EmbeddedServer(data_dir, SystemClock())
    target = await server.ensure()
    await migrate(target, first=install)
    database = await Database.connect(target, most_connections=12)
    ran: set[object] = set()

    async def handler(run: JobRun) -> None:
        async with database.connection() as connection:
            await connection.execute("SELECT pg_sleep(0.002)")
        ran.add(run.payload["n"])

    registry = Registry()
    registry.add(JobType(name="probe", handler=handler))
    queue = JobQueue(database, registry)
    worker = Worker(
        database,
        registry,
        queue,
        clock=SystemClock(),
        metrics=Metrics(),
        concurrency=6,
        heartbeat_timeout=timedelta(seconds=1),
        dequeue_timeout=timedelta(seconds=1),
    )
    working = asyncio.create_task(worker.run())
    committed: set[int] = set()

    async def is_answering() -> bool:
        return (await database.probe()).at is not None

    async def enqueue(numbers: range) -> None:
        for n in numbers:
            try:
                async with database.transaction() as connection:
                    await queue.add([NewJob(type="probe", payload={"n": n})]).run(connection)
                committed.add(n)
            except StoreUnavailableError:
                await until(is_answering, what="the database coming back")

    for restart in range(2):
        load = asyncio.create_task(enqueue(range(restart * 200, restart * 200 + 200)))
        before = len(committed)
        await until(lambda: len(committed) > before + 50)  # noqa: B023  # awaited within the same turn
        os.kill(int((locate(data_dir) / "postmaster.pid").read_text().splitlines()[0]), death)
        await until(server.needs_attention)
        await server.ensure()
        await load
    await enqueue(range(1000, 1010))
    await until(lambda: committed <= ran, what="every committed job running")
    assert not working.done()

    await worker.stop()
    await working
    failed = (await queue.stats()).by_status[JobStatus.FAILED]
    await database.close()
    await server.stop()

    assert len(committed) >= 300
    assert failed == 0
