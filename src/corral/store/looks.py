"""When the provider was last seen whole; what is shown of instances is as fresh as that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from corral.store.database import Connection

_LAST = """
SELECT at, CASE WHEN at IS NOT NULL THEN now() - coalesce(noted_at, at) END AS age, every FROM corral_last_look
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook:
    """The last complete listing."""

    at: datetime | None
    """When it began, by the clock of the process that read it; None: there was none yet."""
    age: timedelta | None
    """How long ago it was recorded, by the database's clock."""
    every: timedelta | None
    """How often the leader lists, if it said so: a small rate limit and a large account make it rarer than set."""


async def remember(connection: Connection, at: datetime) -> None:
    """A complete listing was read at *at*."""
    await connection.execute("UPDATE corral_last_look SET at = $1, noted_at = now()", at)


async def announce(connection: Connection, every: timedelta) -> None:
    """The leader will list again after *every*; written only when it changed."""
    await connection.execute("UPDATE corral_last_look SET every = $1 WHERE every IS DISTINCT FROM $1", every)


async def last(connection: Connection) -> LastLook:
    """The last complete listing, by any process."""
    row = await connection.fetchrow(_LAST)
    return LastLook(at=row["at"], age=row["age"], every=row["every"])
