"""What is billed now: the spans that have begun and are not over, by cause."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

from corral.domain.costs.forecast import BilledCause
from corral.domain.costs.usage import HOURS
from corral.store.session.database import Connection
from corral.store.tables.costs.totals import SPANS, cost_of

_ALWAYS: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPEN: Final = " AND u.ended_latest IS NULL AND u.started_latest IS NOT NULL"
_BILLED: Final = f"""
SELECT u.cause AS key, count(DISTINCT u.provider_id) AS machines, sum(u.unit_price::numeric * u.quantity) AS price,
       sum(u.unit_price::numeric * u.quantity * extract(epoch FROM e2 - s1)) AS high,
       sum(u.unit_price::numeric * u.quantity * extract(epoch FROM e1 - s2)) AS inside,
       sum(u.unit_price::numeric * u.quantity * GREATEST(extract(epoch FROM e1 - s2), 0)) AS low,
       bool_or(u.estimated) AS estimated
FROM ({SPANS.format(key="u.id", scope=_OPEN)}) AS span JOIN corral_usage AS u ON u.id = span.key
GROUP BY u.cause
"""  # noqa: S608  # constants


async def billed_now(connection: Connection, now: datetime) -> list[BilledCause]:
    """What is billed at *now* for each cause, the most expensive first."""
    found = [
        BilledCause(
            cause=row["key"],
            machines=row["machines"],
            per_hour=Fraction(row["price"]) / HOURS,
            so_far=cost_of(row),
        )
        for row in await connection.fetch(_BILLED, _ALWAYS, now, now)
    ]
    return sorted(found, key=lambda each: (-each.per_hour, each.cause))
