"""One pass over one instance as a process of its own, to be paused: `python create_process.py HOST DATABASE URL ID`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from pydantic import SecretStr

from corral.base.clock import SystemClock
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.domain.errors import CorralError
from corral.domain.lifecycle.policy import Policy
from corral.engine.build import build_engine
from corral.jobs.registry import JobId, JobRun, RequeueError
from corral.store.server.cluster_files import SUPERUSER
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from support.engines.runtime import open_test_runtime

LONGEST_CREATE_SECONDS = 2.0
MOST_LOOKS = 100


async def main(host: str, name: str, base_url: str, instance_id: str) -> None:
    clock, policy = SystemClock(), Policy(longest_create=timedelta(seconds=LONGEST_CREATE_SECONDS))
    target = DatabaseTarget(host=host, user=SUPERUSER, database=name)
    database = await Database.connect(target, most_connections=4)
    async with (
        HttpExchange(base_url=base_url, api_key=SecretStr("key"), timeout_seconds=5, clock=clock) as exchange,
        open_test_runtime(database, target, NovitaCloud(exchange), clock, policy=policy) as runtime,
    ):
        reconciler = build_engine(runtime).reconciler
        run = JobRun(id=JobId(1), type="create_instance", payload={"instanceId": instance_id}, attempt=1)
        for _ in range(MOST_LOOKS):
            try:
                await reconciler.reconcile(run)
            except (CorralError, RequeueError):  # no listing was compared yet, or nothing was sent
                await clock.sleep(0.1)
            else:
                return


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
