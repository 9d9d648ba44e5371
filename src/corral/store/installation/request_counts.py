"""Requests of each caller in its current window, counted by all processes; the time is the database's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from corral.store.session.database import Connection

_ADD = """
INSERT INTO corral_request_counts AS c (caller, used, ends_at)
SELECT caller, used, now() + $3::interval FROM unnest($1::text[], $2::bigint[]) AS n (caller, used)
ORDER BY caller -- one lock order for all processes, so that there is no deadlock
ON CONFLICT (caller) DO UPDATE SET
    used = excluded.used + CASE WHEN c.ends_at > now() THEN c.used ELSE 0 END,
    ends_at = CASE WHEN c.ends_at > now() THEN least(c.ends_at, excluded.ends_at) ELSE excluded.ends_at END
RETURNING caller, used, extract(epoch FROM ends_at - now())::double precision AS resets_in_seconds
"""


class RequestCount(NamedTuple):
    """One caller's requests in its current window."""

    caller: str
    used: int
    resets_in_seconds: float


async def add(connection: Connection, counts: Mapping[str, int], window: timedelta) -> list[RequestCount]:
    """Add *counts*, by caller, and return the sums; a window that has ended begins again."""
    rows = await connection.fetch(_ADD, list(counts), list(counts.values()), window)
    return [RequestCount(row["caller"], row["used"], row["resets_in_seconds"]) for row in rows]


async def sweep(connection: Connection) -> None:
    """Remove windows that have ended."""
    await connection.execute("DELETE FROM corral_request_counts WHERE ends_at <= now()")
