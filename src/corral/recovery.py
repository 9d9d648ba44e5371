"""
What is done to a database beside the service: exported while it runs, imported and rebuilt while it does not.

Puts the parts together for one command each, and takes them apart again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from corral.clock import SystemClock
from corral.engine import archive
from corral.engine.archive import Header, Importing, OnProgress
from corral.engine.news import SEND_WEBHOOK
from corral.jobs import tables
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobRun, JobType, Registry
from corral.opening import migrate_database, opened_database
from corral.settings import Settings
from corral.store.database import Connection, Database
from corral.store.migrate import migrate, migrations, report
from corral.store.solitude import alone
from corral.store.target import DatabaseTarget


async def export(settings: Settings, write: Callable[[str], object], on_progress: OnProgress) -> Header:
    """Hand every line of an export to *write*; the schema stays as it is, whichever release made it."""
    clock = SystemClock()
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
        async with _alone_with(target) as (database, connection):
            importing = Importing(
                connection=connection, queue=_outgoing_tray(database), header=header, on_progress=on_progress
            )
            await importing.run(lines, clock.now())
        await migrate_database(target)
    return header


async def _prepare(target: DatabaseTarget, schema: int) -> None:
    """Give a new database the schema that the rows were written under; what came later is applied to them after."""
    steps = migrations()
    is_new = len((await report(target)).missing) == len(steps)
    chosen = [step for step in steps if step.number <= schema] if is_new else steps
    await migrate(target, first=tables.install, steps=chosen)


@asynccontextmanager
async def _alone_with(target: DatabaseTarget) -> AsyncGenerator[tuple[Database, Connection]]:
    """A transaction that no service meets: committed at the end if none has come meanwhile."""
    async with alone(target) as solitude, _connected(target) as database, database.transaction() as connection:
        yield database, connection
        await solitude.check(connection.get_server_pid())


@asynccontextmanager
async def _connected(target: DatabaseTarget) -> AsyncGenerator[Database]:
    database = await Database.connect(target, most_connections=1)
    try:
        yield database
    finally:
        await database.close()


def _outgoing_tray(database: Database) -> JobQueue:
    """A queue that jobs are only put into: the service does them."""

    async def left_to_the_service(_run: JobRun) -> None:
        raise NotImplementedError

    registry = Registry()
    registry.add(JobType(name=SEND_WEBHOOK, handler=left_to_the_service))
    return JobQueue(database, registry)
