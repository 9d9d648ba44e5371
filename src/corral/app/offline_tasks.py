"""
What is done to a database beside the service: exported while it runs, imported and rebuilt while it does not.

Puts the parts together for one command each, and takes them apart again.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from corral.api.http.request_readers import order_defaults
from corral.app.database_setup import migrate_database, opened_database
from corral.base.clock import SystemClock
from corral.base.settings import Settings
from corral.base.telemetry import Metrics
from corral.cache.registry import CacheRegistry
from corral.cloud.novita.account import opened_account
from corral.cloud.simulated import opened_provider
from corral.domain.errors import GoalRefusedError
from corral.engine.events.publisher import SEND_WEBHOOK, EventPublisher
from corral.engine.ids import random_id
from corral.engine.queries.catalog import Catalog
from corral.engine.recovery import archive
from corral.engine.recovery.archive import ArchiveImport, Header, OnProgress
from corral.engine.recovery.rebuild import Rebuilder, RebuildPlan
from corral.jobs import tables
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Registry
from corral.store.server.cluster_location import locate
from corral.store.server.migrate import migrate, migrations, report
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.exclusive_access import exclusive_access
from corral.store.tables.offers import FailedOffers
from corral.store.tables.rate_limit import DatabaseRateLimitStore


async def export(settings: Settings, write: Callable[[str], object], on_progress: OnProgress) -> Header:
    """Hand every line of an export to *write*; the schema stays as it is, whichever release made it."""
    clock, data_dir = SystemClock(), settings.store.data_dir
    if settings.store.database_url is None and not locate(data_dir).exists():
        raise GoalRefusedError(f"there is nothing to export: no database is in {data_dir.absolute()}")
    async with opened_database(settings, clock) as (target, _), _connected(target) as database:
        return await archive.export(
            database, clock, write, newest_schema=migrations()[-1].number, on_progress=on_progress
        )


async def restore(settings: Settings, lines: Iterable[bytes], on_progress: OnProgress) -> Header:
    """Import the file that consists of *lines*, all of it or nothing."""
    clock, lines = SystemClock(), iter(lines)
    header = archive.read_header(next(lines, b""), newest_schema=migrations()[-1].number)
    async with opened_database(settings, clock) as (target, _):
        await _prepare(target, header.schema)
        async with (
            exclusive_access(target) as solitude,
            _connected(target) as database,
            database.transaction() as connection,
        ):
            importing = ArchiveImport(
                connection=connection, queue=_outgoing_tray(database), header=header, on_progress=on_progress
            )
            await importing.run(lines, clock.now())
            await solitude.check()
        await migrate_database(target)
    return header


async def rebuild(settings: Settings, *, installation: str | None, dry_run: bool) -> RebuildPlan:
    """Record every machine of ours that the database does not know, from the provider's list; or only look."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        target, _ = await stack.enter_async_context(opened_database(settings, clock))
        await migrate_database(target)
        solitude = await stack.enter_async_context(exclusive_access(target))
        database = await stack.enter_async_context(_connected(target))
        _, base_url, api_key = await stack.enter_async_context(opened_provider(settings, clock))
        cloud = await stack.enter_async_context(
            opened_account(
                settings.provider,
                base_url=base_url,
                api_key=api_key,
                ledger=DatabaseRateLimitStore(database),
                clock=clock,
                metrics=Metrics(),
                jitter=random.random,
            )
        )
        rebuilding = Rebuilder(
            cloud=cloud,
            catalog=Catalog(
                cloud,
                CacheRegistry(settings.caches, clock),
                FailedOffers(database),
                clock,
                default_region=settings.instances.default_region,
                regions=settings.instances.regions,
            ),
            database=database,
            # Into the log alone: receivers heard of these machines when they were made.
            tell=EventPublisher(_outgoing_tray(database)).tell,
            clock=clock,
            new_id=random_id,
            health=order_defaults(settings).health,
        )
        plan = await rebuilding.look(installation)
        if not dry_run:
            async with database.transaction() as connection:
                await rebuilding.record(connection, plan)
                await solitude.check()
    return plan


async def _prepare(target: DatabaseTarget, schema: int) -> None:
    """Give a new database the schema that the rows were written under; what came later is applied to them after."""
    steps = migrations()
    is_new = len((await report(target)).missing) == len(steps)
    chosen = [step for step in steps if step.number <= schema] if is_new else steps
    await migrate(target, first=tables.install, steps=chosen)


@asynccontextmanager
async def _connected(target: DatabaseTarget) -> AsyncGenerator[Database]:
    """A few connections, under a name by which nobody takes them for a service's."""
    database = await Database.connect(
        target, most_connections=3, application_name="recovery of corral", statement_seconds=None
    )
    try:
        yield database
    finally:
        await database.close()


def _outgoing_tray(database: Database) -> JobQueue:
    """A queue that jobs are only put into: the service does them."""

    async def left_to_the_service(_run: JobRun) -> None:
        raise RuntimeError("what is put into this tray is for the service to do")

    registry = Registry()
    registry.add(JobType(name=SEND_WEBHOOK, handler=left_to_the_service))
    return JobQueue(database, registry)
