"""How long instances took to become ready; the source of estimates and of the fleet's charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from corral.domain.operation import Operation, OperationKind
from corral.store.session.database import Connection
from corral.store.sql.combined_statement import Write, only_if

MOST_RECENT: Final = 1000

_INSERT = """
INSERT INTO corral_ready_times (product_name, kind, seconds, lag_seconds, at)
SELECT $1::text, $2::text, $3::double precision, $4::double precision, $5::timestamptz
"""
_QUANTILES = """
count(*) AS times, percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY seconds) AS whole,
percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY lag_seconds) AS lag
"""
_RECENT = f"""
SELECT {_QUANTILES} FROM (
    SELECT seconds, lag_seconds FROM corral_ready_times WHERE at > $1 ORDER BY at DESC LIMIT {MOST_RECENT}
) AS latest
"""  # noqa: S608  # constants
_BY_STEP = f"""
SELECT ceil(extract(epoch FROM at - $1::timestamptz) / extract(epoch FROM $3::interval))::int AS step, {_QUANTILES}
FROM corral_ready_times WHERE at > $1::timestamptz AND at <= $2::timestamptz GROUP BY 1
"""  # noqa: S608  # constants


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The median and the 90th percentile; None while there are no times."""

    p50: timedelta | None
    p90: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTimes:
    """Times to ready of some instances."""

    count: int
    whole: Quantiles
    """From the request to ready."""
    lag: Quantiles
    """From the first sighting of the machine running to ready."""


def add(product_name: str, operation: Operation, *, if_: str | None = None) -> Write:
    """Insert how long *operation*, which made its instance ready, took, if the write called *if_* changed a row."""
    ready, ran = operation.stamps["ready"], operation.stamps.get("instanceRunning")
    whole = (ready - operation.created_at).total_seconds()
    lag = None if ran is None else (ready - ran).total_seconds()
    sql = f"{_INSERT} WHERE {only_if(if_)}"
    return Write("new_ready_time", sql, (product_name, operation.kind.value, whole, lag, ready))


async def usual_seconds(connection: Connection, product_name: str) -> float | None:
    """The median of the last twenty new instances of a product; None while none is known."""
    found: float | None = await connection.fetchval(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM (SELECT seconds FROM corral_ready_times"
        " WHERE product_name = $1 AND kind = $2 ORDER BY id DESC LIMIT 20) AS latest",
        product_name,
        OperationKind.CREATE.value,
    )
    return found


async def recent(connection: Connection, since: datetime) -> ReadyTimes:
    """The times since then, at most the last thousand."""
    return _times(await connection.fetchrow(_RECENT, since))


async def by_step(
    connection: Connection, *, after: datetime, until: datetime, step: timedelta
) -> dict[int, ReadyTimes]:
    """The times in each *step* between *after* and *until*, by step number from 1; empty steps are left out."""
    rows = await connection.fetch(_BY_STEP, after, until, step)
    return {row["step"]: _times(row) for row in rows}


def _times(row: Any) -> ReadyTimes:
    return ReadyTimes(count=row["times"], whole=_quantiles(row["whole"]), lag=_quantiles(row["lag"]))


def _quantiles(seconds: Sequence[float | None] | None) -> Quantiles:
    p50, p90 = (None if s is None else timedelta(seconds=s) for s in seconds or (None, None))
    return Quantiles(p50, p90)
