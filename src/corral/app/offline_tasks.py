"""
Commands on the database beside the service: export while it runs, import and rebuild while it does not.

A rebuild asks the provider and uses an engine. Export and import need the database alone and must not start the
simulator.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from corral.app.database_setup import migrate_database, opened_database
from corral.app.runtime import open_runtime
from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.base.settings.settings import Settings
from corral.domain.errors import GoalRefusedError
from corral.engine.build import build_engine
from corral.engine.events.publisher import SEND_WEBHOOK
from corral.engine.recovery import archive
from corral.engine.recovery.archive import ArchiveImport, Header, OnProgress
from corral.engine.recovery.rebuild import Rebuilder, RebuildPlan
from corral.jobs import pgqueuer_adapter
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Registry
from corral.store.server.cluster_location import locate
from corral.store.server.migrate import migrate, migrations, report
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.exclusive_access import exclusive_access

APPLICATION_NAME = "recovery of corral"


async def export(settings: Settings, write: Callable[[str], object], on_progress: OnProgress) -> Header:
    """Pass every line of an export to *write*; the schema is not migrated."""
    clock, data_dir = SystemClock(), settings.store.data_dir
    if settings.store.database_url is None and not locate(data_dir).exists():
        raise GoalRefusedError(f"there is nothing to export: no database is in {data_dir.absolute()}")
    async with opened_database(settings, clock) as (target, _), _connected(target) as database:
        return await archive.export(
            database, clock, write, newest_schema=migrations()[-1].number, on_progress=on_progress
        )


async def restore(settings: Settings, lines: Iterable[bytes], on_progress: OnProgress) -> Header:
    """Import the file that consists of *lines*, in one transaction."""
    clock, lines = SystemClock(), iter(lines)
    header = archive.read_header(next(lines, b""), newest_schema=migrations()[-1].number)
    async with opened_database(settings, clock) as (target, _):
        await _prepare(target, header.schema)
        async with (
            exclusive_access(target) as check_exclusive,
            _connected(target) as database,
            database.transaction() as connection,
        ):
            importing = ArchiveImport(
                connection=connection, queue=_import_queue(database), header=header, on_progress=on_progress
            )
            await importing.run(lines, clock.now())
            await check_exclusive()
        await migrate_database(target)
    return header


async def rebuild(settings: Settings, *, installation: str | None, dry_run: bool) -> RebuildPlan:
    """Record the machines of this installation that have no record; with *dry_run*, return the plan only."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        target, _ = await stack.enter_async_context(opened_database(settings, clock))
        await migrate_database(target)
        check_exclusive = await stack.enter_async_context(exclusive_access(target))
        database = await stack.enter_async_context(_connected(target))
        runtime = await stack.enter_async_context(
            open_runtime(
                _without_default_webhook(settings),
                clock=clock,
                metrics=Metrics(),
                target=target,
                database=database,
                application_name=APPLICATION_NAME,
            )
        )
        rebuilding = Rebuilder(engine=build_engine(runtime))
        plan = await rebuilding.plan(installation)
        if not dry_run:
            async with database.transaction() as connection:
                await rebuilding.record(connection, plan)
                await check_exclusive()
    return plan


async def _prepare(target: DatabaseTarget, schema: int) -> None:
    """Give a new database the schema of the exported rows; later migrations run after the import."""
    steps = migrations()
    is_new = len((await report(target)).missing) == len(steps)
    chosen = [step for step in steps if step.number <= schema] if is_new else steps
    await migrate(target, first=pgqueuer_adapter.install, steps=chosen)


@asynccontextmanager
async def _connected(target: DatabaseTarget) -> AsyncGenerator[Database]:
    """A few connections that other processes do not count as those of a service."""
    database = await Database.connect(
        target, most_connections=3, application_name=APPLICATION_NAME, statement_seconds=None
    )
    try:
        yield database
    finally:
        await database.close()


def _without_default_webhook(settings: Settings) -> Settings:
    """*settings* for a rebuild: the default receiver got the events of these machines when they were created."""
    return settings.model_copy(update={"webhooks": settings.webhooks.model_copy(update={"url": None})})


def _import_queue(database: Database) -> JobQueue:
    """A queue for an import, which has no engine: it adds sends, and the service runs them later."""

    async def left_to_the_service(_run: JobRun) -> None:
        raise RuntimeError("an import runs no jobs")

    registry = Registry()
    registry.add(JobType(name=SEND_WEBHOOK, handler=left_to_the_service))
    return JobQueue(database, registry)
