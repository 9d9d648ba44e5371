"""The id of this installation: the part of a machine's name at the provider that shows which installation made it."""

from __future__ import annotations

from datetime import datetime

from corral.store.session.database import Connection


async def load(connection: Connection) -> str:
    """The id, which a migration made at random."""
    found: str = await connection.fetchval("SELECT mark FROM corral_installation")
    return found


async def installed_at(connection: Connection) -> datetime:
    """When the installation began, as far as this database shows; its event log may be that of an older database."""
    found: datetime = await connection.fetchval(
        "SELECT LEAST(min(applied_at), (SELECT at FROM corral_events ORDER BY id LIMIT 1)) FROM corral_migrations"
    )
    return found


async def replace(connection: Connection, installation: str) -> None:
    """Take over the id of another installation; for a database without instances of its own."""
    await connection.execute("UPDATE corral_installation SET mark = $1", installation)
