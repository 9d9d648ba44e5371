"""Creates are held back while the process continues: the database server behind it was restarted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.clock.clocks import SteppedClock

from corral.app.database_setup import migrate_database
from corral.base.clock import SystemClock
from corral.domain.errors import CloudTransientError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.policy import Policy
from corral.engine.reconcile.create_gate import CreateGate
from corral.store.installation import last_listing
from corral.store.installation.last_listing import ListingStart
from corral.store.server.embedded import EmbeddedServer
from corral.store.session.database import Connection, Database

REQUEST = InstanceId("inst_1")


@asynccontextmanager
async def started(data_dir: Path) -> AsyncGenerator[Connection]:
    """A connection to a PostgreSQL server that runs for the length of the block."""
    server = EmbeddedServer(data_dir, SystemClock(), options=[("fsync", "off")])
    try:
        target = await server.ensure()
        await migrate_database(target)
        database = await Database.connect(target, most_connections=1)
        async with database.connection() as connection:
            yield connection
        await database.close()
    finally:
        await server.stop()


async def server_of(connection: Connection) -> ListingStart:
    """The last listing that was begun on the server of *connection*."""
    now = await last_listing.listings(connection)
    return ListingStart(number=now.begun, server=now.server)


async def test_a_restarted_database_server_needs_a_listing_of_its_own(short_dir: Path) -> None:
    """It may have been restored, or replaced by one that lost the last commits, while this process went on."""
    gate = CreateGate(SteppedClock(), Policy())
    async with started(short_dir / "gate") as connection:
        await gate.start(connection)
        before = await last_listing.begin(connection)
        await last_listing.compared(connection, before)
        await gate.check(connection, before.server, REQUEST)

    async with started(short_dir / "gate") as connection:
        now = await server_of(connection)
        assert now.server > before.server
        with pytest.raises(CloudTransientError, match="no complete listing"):
            await gate.check(connection, now.server, REQUEST)

        await last_listing.compared(connection, ListingStart(number=now.number + 1, server=before.server))
        with pytest.raises(CloudTransientError, match="no complete listing"):
            await gate.check(connection, now.server, REQUEST)

        await last_listing.compared(connection, await last_listing.begin(connection))
        await gate.check(connection, now.server, REQUEST)
