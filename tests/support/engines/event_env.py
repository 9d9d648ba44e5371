"""Instances that change, and everything that publishes it, over one test's database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from corral.base.clock import Clock
from corral.domain.errors import Failure
from corral.domain.events import Change
from corral.domain.instance import CreateRequest, Instance, InstanceId, OperationId, Placement, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import Operation, OperationKind, OperationStatus
from corral.domain.placement.catalog import BillingMode
from corral.engine.events.log import EventLog
from corral.engine.events.publisher import SEND_WEBHOOK, EventPublisher
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Registry
from corral.store.session.database import Database
from corral.store.tables import instances, operations
from corral.views.event import EventDetails

UP = (Phase.STARTING, Phase.RUNNING, Phase.HEALTH_CHECKING, Phase.READY)
"""What an instance goes through on its way up, after its creation."""


async def _unsent(_run: JobRun) -> None:
    """Do no work: tests that send do so themselves."""


class CountedLog(EventLog):
    """The log, and how often a page of it was read."""

    reads = 0

    async def page(
        self, *, after: int, limit: int, instance_id: str | None = None, newest: bool = False
    ) -> list[EventDetails]:
        self.reads += 1
        return await super().page(after=after, limit=limit, instance_id=instance_id, newest=newest)


class EventEnv:
    """Makes changes and publishes them, as the engine does."""

    def __init__(self, database: Database, clock: Clock, *, default_url: str | None = None) -> None:
        self.database = database
        self.clock = clock
        self.registry = Registry()
        self.queue = JobQueue(database, self.registry)
        self.event_publisher = EventPublisher(self.queue, default_webhook_url=default_url)
        self.log = CountedLog(database)
        self.registry.add(JobType(name=SEND_WEBHOOK, handler=_unsent))

    def fresh(self, name: str = "a1", *, url: str | None = None) -> Instance:
        """An instance that has just been requested."""
        now = self.clock.now()
        return Instance(
            id=InstanceId(f"inst_{name}"),
            request=CreateRequest(
                name=name, product_name="RTX 4090 24GB", template_id="1", regions=("CN-HK-01",), webhook_url=url
            ),
            goal=Goal.RUNNING,
            phase=Phase.CREATING,
            operation_id=OperationId(f"op_{name}"),
            created_at=now,
            phase_since=now,
            deadline_at=now + timedelta(minutes=20),
        )

    async def create(self, *names: str, url: str | None = None) -> list[Instance]:
        """Store new instances and publish them, in one transaction."""
        made = [self.fresh(name, url=url) for name in names]
        now = self.clock.now()
        requested = [
            Operation(
                id=instance.operation_id,
                instance_id=instance.id,
                kind=OperationKind.CREATE,
                status=OperationStatus.INITIATED,
                created_at=now,
            )
            for instance in made
        ]
        async with self.database.transaction() as connection:
            await instances.add(made).run(connection)
            await operations.add(requested).run(connection)
            changes = [Change(before=None, after=instance, because="requested", at=now) for instance in made]
            await self.event_publisher.publish(connection, changes)
        return made

    async def move(self, instance: Instance, *phases: Phase, failure: Failure | None = None) -> Instance:
        """Take *instance* through *phases*, each in a transaction of its own."""
        for phase in phases:
            instance = await self._step(instance, phase, failure)
        return instance

    async def _step(self, before: Instance, phase: Phase, failure: Failure | None) -> Instance:
        placed = Placement(
            region="CN-HK-01", cluster_id="c", product_id="p-1", billing_mode=BillingMode.SPOT, micro_usd=180_000
        )
        after = replace(
            before, phase=phase, failure=failure, provider_id=ProviderId(f"n-{before.id}"), placement=placed
        )
        async with self.database.transaction() as connection:
            assert await instances.update(after, wake_at=None).run(connection)
            after = instances.updated(after)
            change = Change(before=before, after=after, because=f"now {phase}", at=self.clock.now())
            await self.event_publisher.publish(connection, [change])
        return after

    async def jobs_waiting(self) -> int:
        return len(await self.queue.find(type=SEND_WEBHOOK))
