"""The two queues that are compared: Corral's, and PgQueuer as its own documentation shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

import asyncpg
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.environment import Environment
from corral.base.metrics import Metrics
from corral.jobs.pgqueuer_adapter import install
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.server.migrate import migrate
from corral.store.session.database import Database

TYPE = "benched"
CONNECTIONS = 24
"""What `corral serve` opens by default: ten for the API, ten for jobs, four to spare."""

Deed = Callable[[int], Awaitable[None]]
"""What a job does; its argument is the number it was enqueued with."""


class Queue(Protocol):
    """What a side must offer."""

    pool: asyncpg.Pool

    async def enqueue(self, connection: Any, numbers: list[int]) -> None:
        """Add a job for each of *numbers* within the transaction of *connection*, in one statement."""
        ...

    async def clear(self) -> None:
        """Forget every job."""
        ...

    def working(self, deed: Deed, *, at_once: int) -> Any:
        """A worker, running for as long as this is open."""
        ...


class CorralQueue:
    """Ours: registry, queue and worker as the service wires them."""

    def __init__(self, database: Database, environment: Environment) -> None:
        self.pool = database.pool
        self._database = database
        self._ground = environment
        self._registry = Registry()
        self._deed: Deed = _nothing
        self._registry.add(JobType(name=TYPE, handler=self._handle))
        self._queue = JobQueue(database, self._registry)

    async def _handle(self, run: JobRun) -> None:
        await self._deed(int(str(run.payload["number"])))

    async def enqueue(self, connection: Any, numbers: list[int]) -> None:
        """Add jobs."""
        await self._queue.add([NewJob(type=TYPE, payload={"number": n}) for n in numbers]).run(connection)

    async def clear(self) -> None:
        """Forget every job."""
        await self.pool.execute("TRUNCATE corral_pgqueuer, corral_pgqueuer_log, corral_finished_jobs")

    @asynccontextmanager
    async def working(self, deed: Deed, *, at_once: int) -> AsyncGenerator[None]:
        """Run a worker of ours."""
        self._deed = deed
        worker = Worker(
            self._database,
            self._registry,
            self._queue,
            clock=self._ground.clock,
            metrics=Metrics(),
            concurrency=at_once,
        )
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            await worker.stop()
            await running


class BareQueue:
    """PgQueuer's own manager and executor on a plain pool, with the batch size and limit that our worker gives it."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool

    async def enqueue(self, connection: Any, numbers: list[int]) -> None:
        """Add jobs."""
        payloads: list[bytes | None] = [b'{"number":%d}' % n for n in numbers]
        await Queries(AsyncpgDriver(connection)).enqueue([TYPE] * len(numbers), payloads, [10] * len(numbers))

    async def clear(self) -> None:
        """Forget every job."""
        await self.pool.execute("TRUNCATE pgqueuer, pgqueuer_log")

    @asynccontextmanager
    async def working(self, deed: Deed, *, at_once: int) -> AsyncGenerator[None]:
        """Run PgQueuer's manager."""
        manager = QueueManager(Queries(AsyncpgPoolDriver(self.pool)))

        @manager.entrypoint(TYPE)
        async def handle(job: Job) -> None:
            await deed(int((job.payload or b"")[len(b'{"number":') : -1]))

        running = asyncio.create_task(
            manager.run(
                dequeue_timeout=timedelta(seconds=5),
                batch_size=at_once // 2,
                max_concurrent_tasks=at_once,
            )
        )
        try:
            yield
        finally:
            manager.shutdown.set()
            await running


@asynccontextmanager
async def both_queues(environment: Environment) -> AsyncGenerator[tuple[CorralQueue, BareQueue]]:
    """One of each, every one in a database of its own on the same server."""
    target = await environment.new_database("bench_corral")
    await migrate(target, first=install)
    database = await Database.connect(target, most_connections=CONNECTIONS)
    bare = await environment.new_database("bench_bare")
    try:
        async with asyncpg.create_pool(**bare.arguments(), min_size=1, max_size=CONNECTIONS) as pool:
            await Queries(AsyncpgPoolDriver(pool)).install()
            yield CorralQueue(database, environment), BareQueue(pool)
    finally:
        await database.close()


async def _nothing(_number: int) -> None:
    """Do nothing."""
