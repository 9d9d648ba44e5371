"""The days that were compared with the provider's bill, and the usage of one day by machine, kind and price."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final

import msgspec

from corral.domain.costs.reconciled_days import DayState, ReconciledDay
from corral.domain.costs.reconciliation import DayUsage, Reconciliation
from corral.domain.costs.usage import UsageKind
from corral.store.session.database import Connection
from corral.store.sql.combined_statement import Write
from corral.store.tables.costs.totals import CLIPPED, SPANS

_USAGE: Final = f"""
SELECT key ->> 0 AS provider_id, key ->> 1 AS kind, max(key ->> 2) AS instance_id, unit_price,
       bool_or(estimated) AS estimated, sum(quantity * extract(epoch FROM high)) AS high,
       sum(quantity * extract(epoch FROM inside)) AS inside,
       sum(quantity * GREATEST(extract(epoch FROM inside), 0)) AS low
FROM (SELECT key, unit_price, quantity, estimated, {CLIPPED.format(since="$1", until="$2")} FROM (
    {SPANS.format(key="jsonb_build_array(u.provider_id, u.kind, u.instance_id)", scope="")}
) AS span) AS part
GROUP BY key ->> 0, key ->> 1, unit_price
HAVING sum(extract(epoch FROM high)) > 0
"""  # noqa: S608  # constants
_FIRST_DAY: Final = "SELECT (min(started_earliest) AT TIME ZONE 'UTC')::date FROM corral_usage"
_RECORD: Final = """
INSERT INTO corral_reconciliations AS r (day, state, attempted_at, attempts, retry_at, reason, result)
VALUES ($1, $2, $3, 1, $4, $5, $6::jsonb)
ON CONFLICT (day) DO UPDATE SET
    state = CASE WHEN excluded.result IS NULL THEN r.state ELSE excluded.state END,
    attempted_at = excluded.attempted_at,
    attempts = r.attempts + 1,
    retry_at = excluded.retry_at,
    reason = excluded.reason,
    result = COALESCE(excluded.result, r.result)
RETURNING *
"""
_LIST: Final = "SELECT * FROM corral_reconciliations ORDER BY day DESC LIMIT $1"
_ONE: Final = "SELECT * FROM corral_reconciliations WHERE day = $1"
_RETRIES: Final = "SELECT day, retry_at FROM corral_reconciliations WHERE day >= $1"


async def day_usage(connection: Connection, *, since: datetime, until: datetime, now: datetime) -> list[DayUsage]:
    """The usage of all machines from *since* to *until*, by machine, kind and price."""
    return [_usage(row) for row in await connection.fetch(_USAGE, since, until, now)]


async def first_day(connection: Connection) -> date | None:
    """The first day in UTC with usage; None without any."""
    found: date | None = await connection.fetchval(_FIRST_DAY)
    return found


async def retries(connection: Connection, since: date) -> dict[date, datetime | None]:
    """The days from *since* on that were attempted, and when each is attempted again."""
    return {row["day"]: row["retry_at"] for row in await connection.fetch(_RETRIES, since)}


def record(
    day: date, result: Reconciliation | None, *, at: datetime, retry_at: datetime | None, reason: str | None = None
) -> Write:
    """Store the outcome of an attempt; without a *result* the day keeps the one it has."""
    state = DayState.UNREACHABLE if result is None else DayState.RECONCILED
    stored = None if result is None else msgspec.json.encode(result).decode()
    return Write("reconciled_day", _RECORD, (day, state.value, at, retry_at, reason, stored))


async def latest(connection: Connection, limit: int) -> list[ReconciledDay]:
    """The last days that were attempted, the latest first."""
    return [read(row) for row in await connection.fetch(_LIST, limit)]


async def load(connection: Connection, day: date) -> ReconciledDay | None:
    """One day; None if it was not attempted."""
    row = await connection.fetchrow(_ONE, day)
    return None if row is None else read(row)


def read(row: Any) -> ReconciledDay:
    """The day in a row."""
    stored = row["result"]
    return ReconciledDay(
        day=row["day"],
        state=DayState(row["state"]),
        attempted_at=row["attempted_at"],
        attempts=row["attempts"],
        retry_at=row["retry_at"],
        reason=row["reason"],
        result=None if stored is None else msgspec.json.decode(stored, type=Reconciliation),
    )


def _usage(row: Any) -> DayUsage:
    return DayUsage(
        provider_id=row["provider_id"],
        instance_id=row["instance_id"],
        is_gpu=row["kind"] == UsageKind.GPU,
        unit_price=row["unit_price"],
        is_estimated=row["estimated"],
        low=row["low"],
        mid=(row["high"] + row["inside"]) / 2,
        high=row["high"],
    )
