"""Opening the database: the embedded one or a server, with the schema up to date."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from corral.clock import Clock
from corral.jobs import tables
from corral.settings import Settings
from corral.store.embedded import EmbeddedServer
from corral.store.migrate import Migration, migrate
from corral.store.target import DatabaseTarget


async def migrate_database(target: DatabaseTarget) -> list[Migration]:
    """Bring the schema up to date; answers what was applied."""
    return await migrate(target, first=tables.install)


@asynccontextmanager
async def opened_database(
    settings: Settings, clock: Clock
) -> AsyncGenerator[tuple[DatabaseTarget, EmbeddedServer | None]]:
    """The database these settings name: a server's address, or an embedded one for as long as this is open."""
    url = settings.store.database_url
    if url is not None:
        yield DatabaseTarget(url=url.get_secret_value()), None
        return
    embedded = EmbeddedServer(settings.store.data_dir, clock)
    try:
        yield await embedded.ensure(), embedded
    finally:
        await embedded.stop()
