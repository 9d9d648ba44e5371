"""Everything a create passes through, over one test's database: a catalog as provider, and jobs that do not run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from corral.base.clock import Clock
from corral.cloud.port import Cloud
from corral.domain.idempotency import KeyRow
from corral.domain.instance import CreateRequest
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.operation import OperationKind
from corral.engine.build import build_engine
from corral.engine.commands.change import AcceptedCommand
from corral.engine.commands.context import CommandContext
from corral.engine.commands.create import CreateInstance
from corral.store.session.database import Database
from support.clock.clocks import SteppedClock
from support.engines.audit_lines import CONTEXT
from support.engines.runtime import idle_runtime
from support.provider.catalog_provider import CatalogProvider


def a_create_request(name: str = "trainer") -> CreateRequest:
    return CreateRequest(
        name=name, product_name="RTX 4090 24GB", template_id="204511", regions=("CN-HK-01", "AS-SGP-02")
    )


class CommandEnv:
    """An engine that takes commands; no worker runs their jobs, and the provider has a catalog alone."""

    def __init__(self, database: Database, *, cloud: Cloud | None = None, **parts: Any) -> None:
        self.database = database
        self.clock = SteppedClock()
        self.provider = CatalogProvider(self.clock)
        self.engine = build_engine(idle_runtime(database, cloud or self.provider, self.clock, **parts))
        self.caches = self.engine.caches.registry
        self.registry = self.engine.registry
        self.queue = self.engine.queue
        self.estimates = self.engine.describer.estimates
        self.event_publisher = self.engine.event_publisher
        self.commands = self.engine.create
        self.changes = self.engine.change
        self.queries = self.engine.queries

    def new_commands(self, clock: Clock) -> CreateInstance:
        """As another process on the same database would have them."""
        return build_engine(replace(self.engine.runtime, clock=clock)).create

    async def delete(self, given_id: str, context: CommandContext = CONTEXT) -> AcceptedCommand | KeyRow:
        return await self.changes.record(OperationKind.DELETE, given_id, CommandOptions(), context)

    async def count(self, table: str) -> int:
        async with self.database.connection() as connection:
            found: int = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608  # a test's own
        return found

    async def counts(self) -> dict[str, int]:
        tables = ("corral_instances", "corral_operations", "corral_events", "corral_pgqueuer", "corral_idempotency")
        return {table.removeprefix("corral_"): await self.count(table) for table in tables}
