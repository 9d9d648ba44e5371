"""When the provider was last seen whole; what is shown of instances is as fresh as that."""

from __future__ import annotations

from datetime import datetime

from corral.store.database import Connection


async def remember(connection: Connection, at: datetime) -> None:
    """A complete listing was read at *at*."""
    await connection.execute("UPDATE corral_last_look SET at = $1", at)


async def last(connection: Connection) -> datetime | None:
    """When that last was; None: never."""
    found: datetime | None = await connection.fetchval("SELECT at FROM corral_last_look")
    return found
