"""
The budgets, and how much of each is spent and reserved.

What is reserved is a column of the instances: `domain/budgets/holding.py` says until when. A create or start is
admitted while the rows of its budgets are locked, in the order of their names, so of parallel requests each counts what
was admitted before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from corral.domain.budgets.announcements import Announced
from corral.domain.budgets.budget import Budget, BudgetPeriod, LimitAction, began_at
from corral.domain.costs.totals import CostScope
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.store.session.database import Connection
from corral.store.tables.costs.totals import earliest_start, latest_end, total_cost

COUNT_LASTS: Final = timedelta(seconds=2)
"""How long requests are admitted by the last count and what was admitted since. Longer, and a machine that was adopted
or relabelled meanwhile is counted late; shorter, and more creates wait for a count."""

MOST: Final = 4 * 10**18
"""Micro-USD: a larger sum, as of an absurd price, counts as this, so that the sum of two fits into a column."""

_COLUMNS: Final = "name, scope, period, limit_micro_usd, on_limit, thresholds"
_SAME: Final = "(b.scope, b.period, b.limit_micro_usd) = (excluded.scope, excluded.period, excluded.limit_micro_usd)"
_PUT: Final = f"""
INSERT INTO corral_budgets AS b ({_COLUMNS}, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
ON CONFLICT (name) DO UPDATE SET
    scope = excluded.scope, period = excluded.period, limit_micro_usd = excluded.limit_micro_usd,
    on_limit = excluded.on_limit, thresholds = excluded.thresholds, updated_at = excluded.updated_at,
    counted_micro_usd = NULL, counted_until = NULL,
    announced_since = CASE WHEN {_SAME} THEN b.announced_since ELSE 'epoch' END,
    announced = CASE WHEN {_SAME} THEN b.announced ELSE '{{}}' END,
    announced_exhausted = {_SAME} AND b.announced_exhausted
RETURNING xmax = 0 AS is_new
"""  # noqa: S608  # constants


def _cost(since: str, now: str) -> str:
    """The most that a row of usage may have cost between two instants, in micro-USD, as SQL."""
    longest = f"LEAST({latest_end(now)}, {now}) - GREATEST({earliest_start(now)}, {since})"
    return f"u.unit_price::numeric * u.quantity * extract(epoch FROM GREATEST({longest}, interval '0')) / 86400"


def _whole(amount: str) -> str:
    """*amount* rounded up, as SQL."""
    return f"LEAST(ceil({amount}), {MOST})::bigint"


_OF_PERIOD: Final = "(u.ended_earliest IS NULL OR u.ended_latest > {since})"
# What the instance `i` has cost since its reservation.
_PAID: Final = f"""
SELECT sum({_cost("{since}", "{now}")}) AS micro_usd
FROM corral_usage AS u
WHERE u.instance_id = i.id AND {_OF_PERIOD} AND {{counts}}
"""  # noqa: S608  # constants
# A create call may prove to have made no machine, and have cost nothing. So what it may have cost is paid out of the
# reservation only as far as it is counted as spent, and for as long: whatever it proves to be, no more is used then.
_PAID_IN_PERIOD: Final = _PAID.format(
    since="CASE WHEN i.provider_id IS NULL THEN GREATEST(i.reserved_at, $1) ELSE i.reserved_at END",
    now="$2",
    counts="(i.provider_id IS NOT NULL OR {of_usage})",
)
_PAID_BY_MACHINE: Final = _PAID.format(since="i.reserved_at", now="$1::timestamptz", counts="i.provider_id IS NOT NULL")
# One statement, so that what a machine costs is counted once: as spent, or as a part of its reservation.
_COUNT: Final = f"""
WITH spent AS (
    SELECT coalesce(sum({_cost("$1::timestamptz", "$2::timestamptz")}), 0) AS micro_usd,
           coalesce(sum(u.unit_price::numeric * u.quantity) FILTER (WHERE u.ended_latest IS NULL), 0) AS daily
    FROM corral_usage AS u
    WHERE {_OF_PERIOD.format(since="$1")} AND {{of_usage}}
), reserved AS (
    SELECT coalesce(sum(GREATEST(i.reserved_micro_usd - coalesce(paid.micro_usd, 0), 0)), 0) AS micro_usd
    FROM corral_instances AS i LEFT JOIN LATERAL ({_PAID_IN_PERIOD}) AS paid ON true
    WHERE i.reserved_micro_usd IS NOT NULL AND i.id IS DISTINCT FROM $3 AND {{of_instances}}
)
SELECT {_whole("spent.micro_usd")} AS spent, {_whole("spent.micro_usd + reserved.micro_usd")} AS used,
       {_whole("spent.daily / 24")} AS hourly
FROM spent, reserved
"""  # noqa: S608  # constants
_DROP_PAID: Final = f"""
UPDATE corral_instances SET reserved_micro_usd = NULL, reserved_at = NULL WHERE id IN (
    SELECT i.id FROM corral_instances AS i LEFT JOIN LATERAL ({_PAID_BY_MACHINE}) AS paid ON true
    WHERE i.reserved_micro_usd IS NOT NULL
      AND (paid.micro_usd >= i.reserved_micro_usd OR i.phase IN ('{Phase.EXITED.value}', '{Phase.TERMINATED.value}'))
    FOR UPDATE OF i SKIP LOCKED
)
"""  # noqa: S608  # constants


class Count(NamedTuple):
    """How much of a budget is used, in micro-USD."""

    spent: int
    reserved: int
    hourly: int
    """What an hour costs with the machines that run."""


async def put(connection: Connection, budget: Budget, now: datetime) -> bool:
    """
    Store a budget; returns whether it is new. What was reported of it counts no more if its limit changed.

    The lock lets the creates that did not see the budget commit first, so that the next create counts them.
    """
    await connection.execute("LOCK TABLE corral_budgets IN EXCLUSIVE MODE")
    values = (budget.name, budget.scope, budget.period, budget.limit_micro_usd, budget.on_limit, budget.thresholds)
    is_new: bool = await connection.fetchval(_PUT, *values, now)
    return is_new


async def remove(connection: Connection, name: str) -> None:
    """Delete a budget."""
    await connection.execute("DELETE FROM corral_budgets WHERE name = $1", name)


async def load_all(connection: Connection) -> list[Budget]:
    """Every budget, by name."""
    rows = await connection.fetch(f"SELECT {_COLUMNS} FROM corral_budgets ORDER BY name")  # noqa: S608  # constants
    return [_budget(row) for row in rows]


async def load(connection: Connection, name: str) -> Budget | None:
    """One budget."""
    row = await connection.fetchrow(f"SELECT {_COLUMNS} FROM corral_budgets WHERE name = $1", name)  # noqa: S608
    return None if row is None else _budget(row)


async def lock(connection: Connection, scopes: Iterable[str]) -> list[Budget]:
    """The budgets with one of *scopes* that refuse requests, by name, with their rows locked."""
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM corral_budgets WHERE on_limit <> '{LimitAction.NOTIFY.value}' AND scope = ANY($1)"  # noqa: S608
        " ORDER BY name FOR UPDATE",
        list(scopes),
    )
    return [_budget(row) for row in rows]


async def lock_one(connection: Connection, name: str) -> tuple[Budget, Announced] | None:
    """One budget with what was reported of it, its row locked; None if it is gone."""
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS}, announced_since, announced, announced_exhausted FROM corral_budgets WHERE name = $1"  # noqa: S608
        " FOR UPDATE",
        name,
    )
    if row is None:
        return None
    announced = Announced(
        since=row["announced_since"], thresholds=tuple(row["announced"]), exhausted=row["announced_exhausted"]
    )
    return _budget(row), announced


async def note_announced(connection: Connection, name: str, announced: Announced) -> None:
    """Store what was reported of a budget."""
    await connection.execute(
        "UPDATE corral_budgets SET announced_since = $2, announced = $3, announced_exhausted = $4 WHERE name = $1",
        name,
        announced.since,
        announced.thresholds,
        announced.exhausted,
    )


async def reserve(connection: Connection, scopes: Sequence[str], amounts: Sequence[int], now: datetime) -> bool:
    """Whether *amounts*, by scope, fit into what is known to be left of every budget; then they are counted there."""
    fits: bool = await connection.fetchval("SELECT corral_reserve($1, $2, $3)", list(scopes), list(amounts), now)
    return fits


async def note_count(connection: Connection, name: str, used: int, until: datetime) -> None:
    """Store that at most *used* is spent and reserved until then, beside what is admitted from now on."""
    await connection.execute(
        "UPDATE corral_budgets SET counted_micro_usd = $2, counted_until = $3 WHERE name = $1",
        name,
        min(used, MOST),
        until,
    )


async def count(connection: Connection, budget: Budget, now: datetime, *, but: InstanceId | None = None) -> Count:
    """How much of *budget* is used now; the reservation of the instance *but* is left out."""
    of_usage, named = _scope(budget.scope, "u", 4)
    statement = _COUNT.format(of_usage=of_usage, of_instances=_scope(budget.scope, "i", 4)[0])
    row = await connection.fetchrow(statement, began_at(budget.period, now), now, but, *named)
    return Count(spent=row["spent"], reserved=row["used"] - row["spent"], hourly=row["hourly"])


async def certain(connection: Connection, budget: Budget, now: datetime) -> int:
    """The least that the present period of *budget* has cost by now, in micro-USD, rounded down."""
    kind, _, named = budget.scope.partition(":")
    key, _, value = named.partition("=")
    scope = CostScope(label=(key, value) if kind == "label" else None, key=named if kind == "key" else None)
    found = await total_cost(connection, since=began_at(budget.period, now), until=now, now=now, scope=scope)
    return math.floor(found.low)


async def hourly(connection: Connection) -> int:
    """What an hour costs with all machines that may be billed now, in micro-USD."""
    found: int = await connection.fetchval(
        f"SELECT {_whole('coalesce(sum(unit_price::numeric * quantity), 0) / 24')}"  # noqa: S608  # constants
        " FROM corral_usage WHERE ended_earliest IS NULL AND ended_latest IS NULL"
    )
    return found


async def raise_reservation(connection: Connection, instance_id: InstanceId, micro_usd: int) -> None:
    """Store a larger reservation of an instance, whose row this transaction has locked."""
    await connection.execute(
        "UPDATE corral_instances SET reserved_micro_usd = $2 WHERE id = $1", instance_id, micro_usd
    )


async def drop_paid(connection: Connection, now: datetime) -> int:
    """
    Delete the reservations of instances that have cost as much since; returns how many.

    Also those of stopped and terminated ones, which a process of an earlier release leaves.
    """
    done: str = await connection.execute(_DROP_PAID, now)
    return int(done.rsplit(" ", 1)[1])


async def running_in(connection: Connection, scope: str) -> list[InstanceId]:
    """The instances of a scope that have a machine, are to run and are not protected."""
    condition, arguments = _scope(scope, "i", 3)
    rows = await connection.fetch(
        f"SELECT i.id FROM corral_instances AS i WHERE i.goal = $1 AND i.phase <> $2 AND i.provider_id IS NOT NULL"  # noqa: S608
        f" AND NOT i.protected AND {condition} ORDER BY i.id",
        Goal.RUNNING,
        Phase.EXITED,
        *arguments,
    )
    return [InstanceId(row["id"]) for row in rows]


def _scope(scope: str, table: str, number: int) -> tuple[str, list[object]]:
    """The condition that a row of *table* is in *scope*, whose argument has that *number*, and the argument."""
    kind, _, named = scope.partition(":")
    if kind == "key":
        return f"{table}.created_by = ${number}", [named]
    if kind == "label":
        key, _, value = named.partition("=")
        return f"{table}.labels @> ${number}::jsonb", [msgspec.json.encode({key: value}).decode()]
    return "true", []


def _budget(row: Any) -> Budget:
    return Budget(
        name=row["name"],
        scope=row["scope"],
        period=BudgetPeriod(row["period"]),
        limit_micro_usd=row["limit_micro_usd"],
        on_limit=LimitAction(row["on_limit"]),
        thresholds=tuple(row["thresholds"]),
    )
