"""Everything a wish passes through, over one test's database: a shop for a provider, and jobs nobody runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from corral.base.clock import Clock
from corral.base.settings import CacheSettings
from corral.cache.registry import CacheRegistry
from corral.cloud.port import Cloud
from corral.domain.events import Change
from corral.domain.idempotency import KeyRow
from corral.domain.instance import CreateRequest
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.operation import OperationKind
from corral.engine.commands.change import AcceptedCommand, ChangeInstance
from corral.engine.commands.context import CommandContext
from corral.engine.commands.create import CreateInstance
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import random_id
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.estimates import Estimates
from corral.engine.queries.instances import InstanceQueries
from corral.engine.queries.provider_name_lookup import ProviderNameLookup
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Priority, Registry
from corral.store.session.database import Connection, Database
from corral.store.sql.combined_statement import Write
from corral.store.tables.offers import FailedOffers
from support.audit_lines import CONTEXT
from support.clocks import SteppedClock
from support.describer import VIEW
from support.fake_catalog import FakeCatalog

REGIONS = ("AS-SGP-02", "CN-HK-01")


def a_create_request(name: str = "trainer") -> CreateRequest:
    return CreateRequest(
        name=name, product_name="RTX 4090 24GB", template_id="204511", regions=("CN-HK-01", "AS-SGP-02")
    )


class CountingPublisher(EventPublisher):
    """The news, and how many changes were told at a time."""

    def __init__(self, queue: JobQueue) -> None:
        super().__init__(queue)
        self.groups: list[int] = []

    async def write(self, connection: Connection, writes: Sequence[Write], changes: Sequence[Change]) -> bool:
        self.groups.append(len(changes))
        return await super().write(connection, writes, changes)


class CommandEnv:
    """Where wishes are taken."""

    def __init__(
        self,
        database: Database,
        *,
        job_types: Sequence[str] = (
            "create_instance",
            "monitor_instance",
            "monitor_startup",
            "release_instance",
            "send_webhook",
        ),
        cloud: Cloud | None = None,
        caches: dict[str, int] | None = None,
    ) -> None:
        self.database = database
        self.clock = SteppedClock()
        self.stub_catalog = FakeCatalog()
        self.caches = CacheRegistry(CacheSettings.model_validate(caches or {}), self.clock)
        self.registry = Registry()
        for name in job_types:
            priority = Priority.HIGH if name == "create_instance" else Priority.NORMAL
            self.registry.add(JobType(name=name, handler=_nothing, priority=priority))
        self.queue = JobQueue(database, self.registry)
        self.estimates = Estimates(database, self.clock)
        self.catalog = Catalog(
            cloud or self.stub_catalog,
            self.caches,
            FailedOffers(database),
            self.clock,
            default_region="CN-HK-01",
            regions=REGIONS,
        )
        self.event_publisher = CountingPublisher(self.queue)
        self.commands = self.new_commands(self.clock)
        self.errands = self.new_changes()
        self.reading = InstanceQueries(database, self.caches)

    def new_commands(self, clock: Clock) -> CreateInstance:
        """As another process on the same database would have them."""
        return CreateInstance(
            database=self.database,
            catalog=self.catalog,
            queue=self.queue,
            event_publisher=self.event_publisher,
            caches=self.caches,
            estimates=self.estimates,
            clock=clock,
            new_id=random_id,
        )

    def new_changes(self, namesakes: ProviderNameLookup | None = None) -> ChangeInstance:
        return ChangeInstance(
            database=self.database,
            queue=self.queue,
            tell=self.event_publisher.tell,
            caches=self.caches,
            estimates=self.estimates,
            clock=self.clock,
            new_id=random_id,
            start_within=timedelta(minutes=10),
            view=VIEW,
            namesakes=namesakes,
        )

    async def delete(self, given_id: str, context: CommandContext = CONTEXT) -> AcceptedCommand | KeyRow:
        return await self.errands.ask(OperationKind.DELETE, given_id, CommandOptions(), context)

    async def count(self, table: str) -> int:
        async with self.database.connection() as connection:
            found: int = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608  # a test's own
        return found

    async def counts(self) -> dict[str, int]:
        tables = ("corral_instances", "corral_operations", "corral_events", "corral_pgqueuer", "corral_idempotency")
        return {table.removeprefix("corral_"): await self.count(table) for table in tables}


async def _nothing(_run: JobRun) -> None:
    """No worker runs in these tests."""
