"""
The log of everything that happened: one order for all, without gaps, the same for every reader.

A reader that has seen number n never later finds a new event with a number up to n: numbers are given after commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from corral.domain.events import Change, event_of
from corral.store.database import Connection

_APPEND = """
INSERT INTO corral_events (instance_id, type, status, previous_status, operation_id, reason, at, data)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
                     $8::jsonb[])
RETURNING id
"""


async def append(connection: Connection, changes: Sequence[Change]) -> list[int]:
    """Write one event for each change, within the transaction that made it; answers their ids, in order."""
    columns = [list(column) for column in zip(*map(_row, changes), strict=True)]
    return sorted(row["id"] for row in await connection.fetch(_APPEND, *columns))


def _row(change: Change) -> tuple[Any, ...]:
    after, before = change.after, change.before
    data = {"providerId": after.provider_id, "failure": after.failure}
    return (
        after.id,
        event_of(change).value,
        after.phase.value,
        None if before is None else before.phase.value,
        after.operation_id,
        change.because,
        change.at,
        msgspec.json.encode({key: value for key, value in data.items() if value is not None}).decode(),
    )
