"""
What usage costs: sums of spans within a period, with their bounds, by groups.

Every bound of a span is moved into the period first. So the sums of the parts of a period are exactly those of the
whole, and so are those of the groups. A group that was billed for no time in the period is not among them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from corral.domain.costs.totals import Cost, CostGroup, CostGrouping, CostScope, GroupBy
from corral.domain.costs.usage import HOURS
from corral.store.session.database import Connection

_MILLION: Final = 10**6
_DAY_MICROSECONDS: Final = 86_400 * _MILLION

# Of a span that follows the listings: a subquery, because a join is planned as if there were hundreds of last listings.
_KNOWN: Final = "GREATEST(u.confirmed_at, CASE WHEN u.follows THEN (SELECT confirmed_at FROM corral_last_look) END)"


def latest_end(now: str) -> str:
    """The latest end of a row of usage, `u`, at the time *now*, as SQL: now, if it is not closed."""
    return f"COALESCE(u.ended_latest, GREATEST({now}, u.started_latest))"


def earliest_start(now: str) -> str:
    """The earliest start of a row of usage, `u`, at the time *now*, as SQL."""
    unbegun = f"LEAST(GREATEST(u.started_earliest, {_KNOWN}), {latest_end(now)})"
    return f"CASE WHEN u.started_latest IS NULL THEN {unbegun} ELSE u.started_earliest END"


# $1 and $2 are the period, $3 is now.
_CAP: Final = latest_end("$3")
_TERMS: Final = "u.unit_price, u.quantity, u.estimated"
CLOSED_SPANS: Final = f"""
SELECT {{key}} AS key, {_TERMS}, u.started_earliest AS s1, u.started_latest AS s2, u.ended_earliest AS e1,
       u.ended_latest AS e2
FROM corral_usage AS u
WHERE u.ended_earliest IS NOT NULL AND u.ended_latest > $1::timestamptz
  AND u.started_earliest < $2::timestamptz{{scope}}
"""  # noqa: S608  # constants
OPEN_SPANS: Final = f"""
SELECT {{key}} AS key, {_TERMS}, {earliest_start("$3")} AS s1,
       COALESCE(u.started_latest, {_CAP}) AS s2, LEAST(GREATEST(u.started_earliest, {_KNOWN}), {_CAP}) AS e1,
       {_CAP} AS e2
FROM corral_usage AS u
WHERE u.ended_earliest IS NULL AND COALESCE(u.ended_latest, $3::timestamptz) > $1 AND u.started_earliest < $2{{scope}}
"""  # noqa: S608  # constants
SPANS: Final = f"{CLOSED_SPANS}UNION ALL{OPEN_SPANS}"
"""The bounds of each span: s1 and s2 of its start, e1 and e2 of its end. {key} is a column, {scope} a condition."""
# `inside` is from the latest start to the earliest end; it is negative if the span may not have been at all.
CLIPPED: Final = """
LEAST(GREATEST(e2, {since}), {until}) - LEAST(GREATEST(s1, {since}), {until}) AS high,
LEAST(GREATEST(e1, {since}), {until}) - LEAST(GREATEST(s2, {since}), {until}) AS inside
"""
# Microseconds are whole numbers, and a double is exact for three centuries of them.
_MICROSECONDS: Final = "(date_part('epoch', {0}) * 1e6)::bigint"
_SUMS: Final = f"""
SELECT day, key, bool_or(estimated) AS estimated,
       sum(price * {_MICROSECONDS.format("high")}) * 0.000001 AS high,
       sum(price * {_MICROSECONDS.format("inside")}) * 0.000001 AS inside,
       (sum(price * {_MICROSECONDS.format("inside")}) - COALESCE(
           sum(price * {_MICROSECONDS.format("inside")}) FILTER (WHERE inside < interval '0'), 0
       )) * 0.000001 AS low
FROM (
    SELECT {{day}} AS day, {{key}} AS key, unit_price::numeric * quantity AS price, estimated, {{clipped}}
    FROM ({{spans}}) AS span{{days}}
) AS part WHERE high > interval '0' GROUP BY day, key
"""  # noqa: S608  # constants
# As many groups as {limit}, in their {order}, then all groups together, with their number.
_LEADING: Final = """
WITH sums AS MATERIALIZED ({sums})
(SELECT day, key, estimated, high, inside, low, NULL::bigint AS groups FROM sums ORDER BY {order} LIMIT {limit})
UNION ALL
SELECT NULL, NULL, COALESCE(bool_or(estimated), false), COALESCE(sum(high), 0), COALESCE(sum(inside), 0),
       COALESCE(sum(low), 0), count(*)
FROM sums
"""
_MOST_EXPENSIVE: Final = 'high + inside DESC, high DESC, key COLLATE "C" NULLS FIRST'
_DAYS: Final = """
        CROSS JOIN LATERAL generate_series(
            date_trunc('day', GREATEST(s1, $1), 'UTC'), LEAST(e2, $2), interval '24 hours'
        ) AS day"""
_STEPS: Final = """
        CROSS JOIN LATERAL generate_series(
            floor(extract(epoch FROM GREATEST(s1, $1) - $1) / extract(epoch FROM $4::interval))::int,
            floor(extract(epoch FROM LEAST(e2, $2) - $1) / extract(epoch FROM $4::interval))::int
        ) AS step"""
_RATE: Final = """
SELECT COALESCE(sum(u.unit_price::numeric * u.quantity), 0) FROM corral_usage AS u
WHERE u.ended_earliest IS NULL AND u.ended_latest IS NULL AND u.started_latest IS NOT NULL
"""
_KEYS: Final = {
    CostGrouping.INSTANCE: "COALESCE(u.instance_id, u.provider_id)",
    CostGrouping.KEY: "u.created_by",
    CostGrouping.PRODUCT: "u.product_name",
    CostGrouping.REGION: "u.region",
    CostGrouping.CAUSE: "u.cause",
    CostGrouping.LABEL: "u.labels ->> {label}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingGroups:
    """The first groups of a period, and all of its groups together."""

    groups: list[CostGroup]
    total: Cost
    count: int
    """How many groups there are, with those that are left out."""


async def total_cost(
    connection: Connection, *, since: datetime, until: datetime, now: datetime, scope: CostScope | None = None
) -> Cost:
    """The cost of all usage from *since* to *until*; usage that is not over counts up to *now*."""
    statement, arguments = _statement((since, until, now), None, scope, is_daily=False)
    return sum((cost_of(row) for row in await connection.fetch(statement, *arguments)), Cost())


async def leading_groups(
    connection: Connection, *, since: datetime, until: datetime, now: datetime, group_by: GroupBy, limit: int
) -> LeadingGroups:
    """
    The cost of the period by groups: the *limit* most expensive first, or the first days.

    The database leaves the others out, because there may be a group for each of many thousands of instances.
    """
    is_daily = group_by.grouping is CostGrouping.DAY
    sums, arguments = _statement((since, until, now), group_by, None, is_daily=is_daily)
    order = "day" if is_daily else _MOST_EXPENSIVE
    statement = _LEADING.format(sums=sums, order=order, limit=f"${len(arguments) + 1}::bigint")
    rows = await connection.fetch(statement, *arguments, limit)
    return await asyncio.to_thread(_leading, rows, is_daily=is_daily)


def _leading(rows: Sequence[Any], *, is_daily: bool) -> LeadingGroups:
    *first, whole = rows
    groups = [CostGroup(key=_day(row) if is_daily else row["key"], cost=cost_of(row)) for row in first]
    return LeadingGroups(groups=groups, total=cost_of(whole), count=whole["groups"])


async def daily_totals(
    connection: Connection, *, since: datetime, until: datetime, now: datetime, group_by: GroupBy
) -> list[CostGroup]:
    """All groups of the period, in no order, each with its days; the sums of these are exactly those of the group."""
    statement, arguments = _statement((since, until, now), group_by, None, is_daily=True)
    rows = await connection.fetch(statement, *arguments)
    # There may be a hundred thousand, of which other requests must not wait for seconds.
    return await asyncio.to_thread(_with_days, rows)


def _with_days(rows: Sequence[Any]) -> list[CostGroup]:
    found = defaultdict[str | None, list[CostGroup]](list)
    for row in rows:
        found[row["key"]].append(CostGroup(key=_day(row), cost=cost_of(row)))
    return [
        CostGroup(
            key=key,
            cost=sum((day.cost for day in days), Cost()),
            days=tuple(sorted((day for day in days if day.cost.high), key=lambda day: day.key or "")),
        )
        for key, days in found.items()
    ]


def _statement(
    period: tuple[datetime, datetime, datetime], group_by: GroupBy | None, scope: CostScope | None, *, is_daily: bool
) -> tuple[str, list[object]]:
    """The statement for the sums of each group, *is_daily*: of each group and day; and its arguments."""
    arguments: list[object] = [*period]

    def parameter(value: object) -> str:
        arguments.append(value)
        return f"${len(arguments)}"

    conditions = _conditions(scope or CostScope(), parameter)
    key = "NULL::text"
    if group_by is not None and group_by.grouping is not CostGrouping.DAY:
        key = _KEYS[group_by.grouping]
        if group_by.grouping is CostGrouping.LABEL:
            key = key.format(label=f"{parameter(group_by.label)}::text")
    statement = _SUMS.format(
        day="day" if is_daily else "NULL::timestamptz",
        key="key",
        clipped=CLIPPED.format(
            since="GREATEST(day, $1)" if is_daily else "$1",
            until="LEAST(day + interval '24 hours', $2)" if is_daily else "$2",
        ),
        days=_DAYS if is_daily else "",
        spans=SPANS.format(key=key, scope=conditions),
    )
    return statement, arguments


def _day(row: Any) -> str:
    day: datetime = row["day"]
    return day.astimezone(UTC).date().isoformat()


async def by_step(
    connection: Connection, *, since: datetime, until: datetime, step: timedelta, now: datetime
) -> dict[int, Cost]:
    """The cost of each step from *since* to *until*, by its number from 0 on; steps without usage are left out."""
    statement = _SUMS.format(
        day="NULL::timestamptz",
        key="step",
        clipped=CLIPPED.format(since="($1 + $4::interval * step)", until="LEAST($1 + $4::interval * (step + 1), $2)"),
        days=_STEPS,
        spans=SPANS.format(key="NULL::text", scope=""),
    )
    return {row["key"]: cost_of(row) for row in await connection.fetch(statement, since, until, now, step)}


async def hourly_rate(connection: Connection, instance_id: str | None = None) -> Fraction:
    """Micro-USD for an hour of everything that is billed now, or of one instance."""
    condition, arguments = ("", ()) if instance_id is None else (" AND u.instance_id = $1", (instance_id,))
    return Fraction(await connection.fetchval(_RATE + condition, *arguments)) / HOURS


def _conditions(scope: CostScope, parameter: Callable[[object], str]) -> str:
    found: list[str] = []
    if scope.label is not None:
        name, value = scope.label
        found.append(f"u.labels ->> {parameter(name)}::text = {parameter(value)}")
    if scope.key is not None:
        found.append(f"u.created_by = {parameter(scope.key)}")
    if scope.instance_id is not None:
        found.append(f"u.instance_id = {parameter(scope.instance_id)}")
    return "".join(f" AND {each}" for each in found)


def _microseconds(amount: Decimal) -> int:
    """A number of seconds, with at most six decimals, in microseconds; the arithmetic of Decimal rounds."""
    seconds, parts = amount.as_integer_ratio()
    return seconds * _MILLION // parts


def cost_of(row: Any) -> Cost:
    """The cost of a row with sums of prices for a day times seconds."""
    # As whole numbers first: there may be a group for each of thousands of instances.
    high, inside, low = (_microseconds(row[name]) for name in ("high", "inside", "low"))
    return Cost(
        low=Fraction(low, _DAY_MICROSECONDS),
        usd=Fraction(high + inside, 2 * _DAY_MICROSECONDS),
        high=Fraction(high, _DAY_MICROSECONDS),
        is_estimated=row["estimated"],
    )
