"""Databases to export from and import into, and what is in them."""

from __future__ import annotations

from collections.abc import Iterable

from corral.app import offline_tasks
from corral.base.settings.configuration import load
from corral.base.settings.settings import Settings
from corral.engine.recovery.archive import Header
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Connection, Database
from corral.store.sql.archive import EXPORTED


def settings_for(target: DatabaseTarget) -> Settings:
    """The settings with which a command uses this database."""
    return load({"DATABASE_URL": f"postgresql://{target.user}@/{target.database}?host={target.host}"}).settings


def unheard(_done: int, _total: int) -> None:
    """Ignores progress."""


async def exported(target: DatabaseTarget) -> list[bytes]:
    """The lines that `corral export` writes."""
    written: list[str] = []
    await offline_tasks.export(settings_for(target), written.append, unheard)
    return [line.encode() for line in written]


async def imported(target: DatabaseTarget, lines: Iterable[bytes]) -> Header:
    """What `corral import` does."""
    return await offline_tasks.restore(settings_for(target), lines, unheard)


async def content(target: DatabaseTarget) -> dict[str, list[str]]:
    """Every row of every table that is kept, but for when instances are next looked at; and the mark."""
    database = await Database.connect(target, most_connections=1)
    try:
        async with database.connection() as connection:
            found = {kind: await _rows(connection, table) for kind, table in EXPORTED.items()}
            found["mark"] = await _rows(connection, "corral_installation")
            return found
    finally:
        await database.close()


async def _rows(connection: Connection, table: str) -> list[str]:
    rows = await connection.fetch(f"SELECT (to_jsonb(t) - 'look_at')::text AS row FROM {table} AS t")  # noqa: S608
    return sorted(row["row"] for row in rows)
