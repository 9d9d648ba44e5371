"""
A process of the service, reduced to what others depend on: `python member_process.py HOST DATABASE INSTANCE`.

It reports that it lives, leads, takes one job that never ends and holds an instance's lock. It prints `leading`, and
`replaced` when it finds that it does not lead any more.
"""

from __future__ import annotations

import asyncio
import sys

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.domain.errors import StoreUnavailableError
from corral.domain.instance import InstanceId
from corral.jobs.pgqueuer_adapter import release
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.server.cluster_files import SUPERUSER
from corral.store.server.target import DatabaseTarget
from corral.store.session import instance_lock
from corral.store.session.database import Database
from corral.store.session.leadership import Leadership
from corral.store.session.presence import Presence
from support.processes.patience import SHORT


async def main(host: str, name: str, instance: str) -> None:
    target, clock = DatabaseTarget(host=host, user=SUPERUSER, database=name), SystemClock()
    presence = Presence(target, clock, role="worker", release=release, timeouts=SHORT)
    leadership = Leadership(target, clock, matter="test", application_name=presence.application_name)
    async with presence.reporting():
        database = await Database.connect(target, most_connections=8, application_name=presence.application_name)

        async def deed(_run: JobRun) -> None:
            async with database.connection() as connection:
                assert await instance_lock.acquire(connection, [InstanceId(instance)]) != [None]
                async with leadership.leading():
                    _say("leading")
                    await _lead(leadership, clock)

        registry = Registry()
        registry.add(JobType(name="deed", handler=deed))
        worker = Worker(
            database,
            registry,
            JobQueue(database, registry),
            clock=clock,
            metrics=Metrics(),
            concurrency=1,
            process_id=presence.id,
        )
        await worker.run()


async def _lead(leadership: Leadership, clock: SystemClock) -> None:
    while True:
        try:
            await leadership.check()
        except StoreUnavailableError:
            _say("replaced")
            raise
        await clock.sleep(0.05)


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
