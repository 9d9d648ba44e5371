"""Usage for an export: each span within a period, in a part for each UTC day, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from typing import Any, Final

import msgspec

from corral.domain.costs.parts import UsagePart
from corral.domain.costs.usage import HOURS
from corral.store.session.database import Connection
from corral.store.tables.costs.totals import CLOSED_SPANS, OPEN_SPANS, cost_of

_PAGE: Final = " AND u.id > $4::bigint ORDER BY u.id LIMIT $5"
# Each half has the limit, too, so that a page reads no more rows than it has, whatever follows.
_PARTS: Final = f"""
WITH span AS (
    ({CLOSED_SPANS.format(key="u.id", scope=_PAGE)}) UNION ALL ({OPEN_SPANS.format(key="u.id", scope=_PAGE)})
    ORDER BY key LIMIT $5
)
SELECT u.id, u.instance_id, i.name, u.provider_id, u.kind, u.cause, u.unit_price, u.quantity, u.estimated,
       u.product_name, u.region, u.billing_mode, u.created_by, u.labels::text AS labels, part.*,
       u.unit_price::numeric * u.quantity * extract(epoch FROM part.e2 - part.s1) AS high,
       u.unit_price::numeric * u.quantity * extract(epoch FROM part.e1 - part.s2) AS inside,
       u.unit_price::numeric * u.quantity * GREATEST(extract(epoch FROM part.e1 - part.s2), 0) AS low
FROM span
JOIN corral_usage AS u ON u.id = span.key
LEFT JOIN corral_instances AS i ON i.id = u.instance_id
LEFT JOIN LATERAL generate_series(
    date_trunc('day', GREATEST(s1, $1), 'UTC'), LEAST(e2, $2), interval '24 hours'
) AS day ON TRUE
CROSS JOIN LATERAL (SELECT GREATEST(day, $1) AS since, LEAST(day + interval '24 hours', $2) AS until) AS period
CROSS JOIN LATERAL (SELECT
    LEAST(GREATEST(span.s1, since), until) AS s1, LEAST(GREATEST(span.s2, since), until) AS s2,
    LEAST(GREATEST(span.e1, since), until) AS e1, LEAST(GREATEST(span.e2, since), until) AS e2
) AS part
ORDER BY u.id, day
"""  # noqa: S608  # constants


async def exported(
    connection: Connection, *, since: datetime, until: datetime, now: datetime, after: int, limit: int
) -> tuple[Iterator[UsagePart], int | None]:
    """
    The parts of at most *limit* spans after the one with the number *after*, and the number of the last of them.

    None for that number: there are no more. Each part is computed when it is taken.
    """
    rows = await connection.fetch(_PARTS, since, until, now, after, limit)
    spans = len({row["id"] for row in rows})
    parts = (_read(row) for row in rows if row["e2"] > row["s1"])
    return parts, rows[-1]["id"] if spans == limit else None


def _read(row: Any) -> UsagePart:
    return UsagePart(
        instance_id=row["instance_id"],
        instance_name=row["name"],
        provider_id=row["provider_id"],
        kind=row["kind"],
        cause=row["cause"],
        unit_price=Fraction(row["unit_price"], HOURS),
        quantity=row["quantity"],
        product_name=row["product_name"],
        region=row["region"],
        billing_mode=row["billing_mode"],
        created_by=row["created_by"],
        labels=msgspec.json.decode(row["labels"] or "{}", type=dict[str, str]),
        starts_at=row["s1"] + (row["s2"] - row["s1"]) / 2,
        ends_at=row["e1"] + (row["e2"] - row["e1"]) / 2,
        cost=cost_of(row),
    )
