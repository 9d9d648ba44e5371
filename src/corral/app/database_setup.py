"""Opening the database: the embedded one or a server, with the schema up to date."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from corral.base.clock import Clock
from corral.base.settings.settings import Settings
from corral.domain.errors import SettingsError
from corral.jobs import pgqueuer_adapter
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.migrate import Migration, migrate
from corral.store.server.server_check import check_server
from corral.store.server.target import DatabaseTarget


async def migrate_database(target: DatabaseTarget) -> list[Migration]:
    """Bring the schema up to date; returns the migrations applied."""
    return await migrate(target, first=pgqueuer_adapter.install)


@asynccontextmanager
async def opened_database(
    settings: Settings, clock: Clock
) -> AsyncGenerator[tuple[DatabaseTarget, EmbeddedServer | None]]:
    """
    The database these settings name: a server's address, or an embedded one for as long as this is open.

    Raises SettingsError when the settings can never work, and StoreUnavailableError when it cannot be reached.
    """
    url = settings.store.database_url
    if url is not None:
        target = DatabaseTarget(url=url.get_secret_value())
        await check_server(target)
        yield target, None
        return
    embedded = EmbeddedServer(settings.store.data_dir, clock)
    try:
        with usable_data_dir(settings):
            target = await embedded.ensure()
        yield target, embedded
    finally:
        with usable_data_dir(settings):
            await embedded.stop()


@contextmanager
def usable_data_dir(settings: Settings) -> Generator[None]:
    """Raise SettingsError instead of an OSError about the data directory."""
    try:
        yield
    except OSError as error:
        path = settings.store.data_dir.absolute()
        raise SettingsError(f"CORRAL_DATA_DIR={path} cannot be used: {error.strerror or error}") from error
