"""A worker as a process of its own, to be killed: `python worker_process.py HOST DATABASE hang|work`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.server.cluster_files import SUPERUSER
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


async def main(host: str, name: str, mode: str) -> None:
    database = await Database.connect(DatabaseTarget(host=host, user=SUPERUSER, database=name), most_connections=30)

    async def deed(run: JobRun) -> None:
        """Do the deed once: what is recorded is not done again. In `hang`, never come to the end of it."""
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO runs (job_id) VALUES ($1)", run.id)
            done = await connection.fetchval("SELECT true FROM deeds WHERE job_id = $1", run.id)
            if not done and (mode == "work" or run.id % 2 == 0):
                await connection.execute("INSERT INTO deeds (job_id) VALUES ($1)", run.id)
        if mode == "hang":
            await asyncio.Event().wait()

    registry = Registry()
    registry.add(JobType(name="deed", handler=deed))
    worker = Worker(
        database,
        registry,
        JobQueue(database, registry),
        clock=SystemClock(),
        metrics=Metrics(),
        concurrency=20,
        heartbeat_timeout=timedelta(seconds=2),
        dequeue_timeout=timedelta(seconds=1),
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
