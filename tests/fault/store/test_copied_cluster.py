"""The embedded database after a restart, from a copy of its files, and after a recovery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from corral.base.clock import SystemClock
from corral.jobs.pgqueuer_adapter import install
from corral.store.installation import continuity, last_listing
from corral.store.server.cluster_location import locate
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.migrate import migrate
from corral.store.session.database import Connection, Database


@asynccontextmanager
async def running(data_dir: Path, *, options: Sequence[tuple[str, str]] = ()) -> AsyncGenerator[tuple[Connection, str]]:
    """A connection, and the identity of the database."""
    server = EmbeddedServer(data_dir, SystemClock(), options=[("fsync", "off"), *options])
    try:
        target = await server.ensure()
        await migrate(target, first=install)
        database = await Database.connect(target, most_connections=1)
        async with database.connection() as connection:
            yield connection, await continuity.identity(connection, server.place())
        await database.close()
    finally:
        await server.stop()


async def used(data_dir: Path) -> Path:
    """A data directory with a stopped database that recorded its identity."""
    async with running(data_dir) as (connection, identity):
        await continuity.record(connection, identity, (await last_listing.listings(connection)).server)
        await connection.execute("CHECKPOINT")
    return data_dir


async def test_a_restarted_database_is_continued_and_a_copy_of_it_is_not(short_dir: Path) -> None:
    """A data directory that was put back from a copy has the rows of the past."""
    data_dir = await used(short_dir / "original")
    async with running(data_dir) as (connection, identity):
        assert await continuity.is_continued(connection, identity)
    copy = short_dir / "copy"
    copying = await asyncio.create_subprocess_exec("cp", "-a", data_dir, copy)  # keeps the owner, which is never root
    assert await copying.wait() == 0
    async with running(copy) as (connection, identity):
        assert not await continuity.is_continued(connection, identity)


async def test_a_recovered_database_is_not_continued(short_dir: Path) -> None:
    """Recovery to a point in time and the promotion of a standby begin another timeline, in the same files."""
    data_dir = await used(short_dir / "recovered")
    (locate(data_dir) / "recovery.signal").touch()
    async with running(data_dir, options=[("restore_command", "false"), ("hot_standby", "off")]) as (
        connection,
        identity,
    ):
        assert not await continuity.is_continued(connection, identity)
