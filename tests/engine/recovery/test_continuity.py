"""Whether a database continues where the service left it, or is a copy that may be older than the account."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from support.database.archives import exported, imported
from support.database.fresh import new_database
from support.engines.stepped_engine import stepped_engine

from corral.domain.lifecycle.policy import Policy
from corral.engine.reconcile.create_gate import CreateGate
from corral.store.installation import continuity, last_listing
from corral.store.server.migrate import migrations
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Connection, Database

BEFORE_CONTINUITY = 17
"""The last schema without an identity."""


@asynccontextmanager
async def connected(target: DatabaseTarget) -> AsyncGenerator[Connection]:
    database = await Database.connect(target, most_connections=1)
    try:
        async with database.connection() as connection:
            yield connection
    finally:
        await database.close()


async def is_continued(connection: Connection) -> bool:
    return await continuity.is_continued(connection, await continuity.identity(connection, ""))


async def use(connection: Connection) -> None:
    """What a process does at its start."""
    server = (await last_listing.listings(connection)).server
    await continuity.record(connection, await continuity.identity(connection, ""), server)


async def test_a_new_database_and_one_in_use_are_continued(target: DatabaseTarget) -> None:
    """Nothing waits at the first start, nor at any other."""
    async with connected(target) as connection:
        assert await is_continued(connection)
        await use(connection)
    async with connected(target) as connection:
        assert await is_continued(connection)


async def test_a_copy_on_the_same_server_is_not_continued(server: DatabaseTarget, target: DatabaseTarget) -> None:
    """As after a dump restored under another name."""
    async with connected(target) as connection:
        await use(connection)
        recorded = await connection.fetchval("SELECT identity FROM corral_last_look")
    async with new_database(server) as copy, connected(copy) as connection:
        await connection.execute("UPDATE corral_last_look SET identity = $1", recorded)
        assert not await is_continued(connection)


async def test_a_table_restored_in_place_is_not_continued(target: DatabaseTarget) -> None:
    """As by `pg_restore --clean`, which makes the tables again."""
    async with connected(target) as connection:
        await use(connection)
        await connection.execute("CREATE TABLE restored (LIKE corral_last_look INCLUDING ALL)")
        await connection.execute("INSERT INTO restored SELECT * FROM corral_last_look")
        await connection.execute("DROP TABLE corral_last_look")
        await connection.execute("ALTER TABLE restored RENAME TO corral_last_look")
        assert not await is_continued(connection)


@pytest.mark.parametrize("into", ["a new database", "one that was used before", "one of an older release"])
async def test_an_imported_database_is_not_continued(
    server: DatabaseTarget, database: Database, target: DatabaseTarget, into: str
) -> None:
    """Whichever release wrote the file: what came after the export may have machines, also after the first listing."""
    is_old = into == "one of an older release"
    async with stepped_engine(database, target) as engine, new_database(server, migrated=not is_old) as copy:
        await engine.request_create()
        lines = await exported(target)
        if is_old:
            lines[0] = lines[0].replace(b'"schema":%d' % len(migrations()), b'"schema":%d' % BEFORE_CONTINUITY)
            names = b"created_by|labels|product_name|lease|reserved_micro_usd|reserved_at|protected|traceparent"
            later = rb',"(' + names + rb')":("[^"]*"|null|false|\d+)'
            lines = [re.sub(later, b"", line) for line in lines]  # columns of later releases
        elif into == "one that was used before":
            async with connected(copy) as connection:
                await use(connection)
        await imported(copy, lines)
        async with connected(copy) as connection:
            assert not await is_continued(connection)
            await CreateGate(engine.clock, Policy()).start(connection)
            await last_listing.remember(connection, engine.clock.now())
            assert not await is_continued(connection)


async def test_a_database_upgraded_from_a_schema_without_identity_is_not_continued(
    database: Database, target: DatabaseTarget
) -> None:
    """It may be a copy. Its requests without a machine wait once; a database without such requests does not."""
    async with stepped_engine(database, target) as engine, connected(target) as connection:
        await engine.request_create()
        await last_listing.remember(connection, engine.clock.now())
        await connection.execute("UPDATE corral_last_look SET identity = NULL")
        await CreateGate(engine.clock, Policy()).start(connection)
        assert not await is_continued(connection)
        await connection.execute("UPDATE corral_instances SET provider_id = 'machine'")
        await CreateGate(engine.clock, Policy()).start(connection)
        assert await is_continued(connection)


async def test_a_role_that_may_not_ask_for_the_server_goes_by_the_database_alone(target: DatabaseTarget) -> None:
    """Its starts are not delayed by what it cannot know."""
    async with connected(target) as connection:
        await connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system FROM PUBLIC")
        await connection.execute(f"CREATE ROLE bounded_{target.database}")
        await connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO bounded_{target.database}")
        try:
            await connection.execute(f"SET ROLE bounded_{target.database}")
            await use(connection)
            assert await is_continued(connection)
            assert (await continuity.identity(connection, "")).startswith("unknown/")
        finally:
            await connection.execute("RESET ROLE")
            await connection.execute(f"DROP OWNED BY bounded_{target.database}")
            await connection.execute(f"DROP ROLE bounded_{target.database}")
