"""One pass over one instance as a process of its own, to be paused: `python create_process.py HOST DATABASE URL ID`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from pydantic import SecretStr

from corral.base.clock import SystemClock
from corral.base.settings import CacheSettings
from corral.cache.registry import CacheRegistry
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.domain.errors import CorralError
from corral.domain.lifecycle.decide import Policy
from corral.engine.events.publisher import EventPublisher
from corral.engine.observe.observations import Observations
from corral.engine.queries.catalog import Catalog
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.reconciler import Reconciler
from corral.engine.reconcile.recorder import Recorder
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.dispatch import Steps
from corral.engine.reconcile.steps.start import StartStep
from corral.engine.reconcile.unmade import UncreatedInstances
from corral.health.probe import Prober
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobId, JobRun, Registry, RequeueError
from corral.outbound.policy import AddressPolicy
from corral.store.server.cluster_files import SUPERUSER
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import installation_id
from corral.store.tables.offers import FailedOffers

LONGEST_CREATE_SECONDS = 2.0
MOST_LOOKS = 100


async def main(host: str, name: str, base_url: str, instance_id: str) -> None:
    clock, policy = SystemClock(), Policy(longest_create=timedelta(seconds=LONGEST_CREATE_SECONDS))
    database = await Database.connect(DatabaseTarget(host=host, user=SUPERUSER, database=name), most_connections=4)
    async with (
        HttpExchange(base_url=base_url, api_key=SecretStr("key"), timeout_seconds=5, clock=clock) as exchange,
        Prober.open(clock=clock, policy=AddressPolicy(allow_private=False, allow_loopback=True)) as prober,
        database.connection() as connection,
    ):
        cloud = NovitaCloud(exchange)
        queue, installation = JobQueue(database, Registry()), await installation_id.load(connection)
        event_publisher = EventPublisher(queue)
        recorder = Recorder(event_publisher=event_publisher)
        caches = CacheRegistry(CacheSettings(), clock)
        catalog = Catalog(
            cloud, caches, FailedOffers(database), clock, default_region="CN-HK-01", regions=("AS-SGP-02",)
        )
        sightings = Observations(
            database=database,
            queue=queue,
            clock=clock,
            policy=policy,
            installation=installation,
            tell=event_publisher.tell,
        )
        create_step = CreateStep(
            cloud=cloud,
            database=database,
            gate=CreateGate(clock, policy),
            unmade=UncreatedInstances.of(cloud, sightings),
            catalog=catalog,
            recorder=recorder,
            clock=clock,
            installation=installation,
            policy=policy,
        )
        start_step = StartStep(cloud=cloud, recorder=recorder, clock=clock, policy=policy)
        acts = Steps(
            cloud=cloud,
            create_step=create_step,
            start_step=start_step,
            prober=prober,
            recorder=recorder,
            clock=clock,
            policy=policy,
            jitter=lambda: 0.5,
        )
        reconciler = Reconciler(database=database, acts=acts, recorder=recorder, clock=clock, policy=policy)
        run = JobRun(id=JobId(1), type="create_instance", payload={"instanceId": instance_id}, attempt=1)
        for _ in range(MOST_LOOKS):
            try:
                await reconciler.look(run)
            except (CorralError, RequeueError):  # no listing was compared yet, or nothing was sent
                await clock.sleep(0.1)
            else:
                return


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
