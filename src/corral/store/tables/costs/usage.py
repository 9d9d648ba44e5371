"""
Spans of usage: those that begin and end with a write of an instance (`domain/costs/changes.py`), and loose machines.

A row that no write closed is completed by what the database knows: how long it was certainly as it is follows from the
row itself and, for a machine that is in every listing, from the last listing that showed all machines as recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from corral.domain.costs.changes import usage_changes
from corral.domain.costs.meter import CLOCK_SET_BACK
from corral.domain.costs.provider_times import LISTED_WITHIN
from corral.domain.costs.totals import UnknownUsage
from corral.domain.costs.usage import UNRECORDED, NewUsage, UsageChange, UsageKind
from corral.domain.instance import Instance, Labels
from corral.store.session.database import Connection
from corral.store.sql.combined_statement import Write, only_if

_CHANGE_COLUMNS: Final = (
    ("provider_id", "text"), ("kind", "text"), ("follows", "bool"), ("known_at", "timestamptz"),
    ("confirmed_at", "timestamptz"), ("started_by", "timestamptz"), ("started_ceiling", "timestamptz"),
    ("ended_by", "timestamptz"), ("ended_floor", "timestamptz"), ("ended_ceiling", "timestamptz"),
    ("is_off", "bool"), ("cause", "text"), ("labels", "jsonb"), ("becomes", "text"),
)  # fmt: skip
_NEW_COLUMNS: Final = (
    ("instance_id", "text"), ("provider_id", "text"), ("kind", "text"), ("cause", "text"), ("unit_price", "bigint"),
    ("quantity", "int"), ("estimated", "bool"), ("since", "timestamptz"), ("after_listing", "bool"),
    ("started_by", "timestamptz"), ("started_floor", "timestamptz"), ("started_ceiling", "timestamptz"),
    ("confirmed_at", "timestamptz"), ("follows", "bool"), ("product_name", "text"), ("region", "text"),
    ("billing_mode", "text"), ("created_by", "text"), ("labels", "jsonb"), ("unless_open", "bool"),
    ("replaces", "text"), ("unlisted_from", "timestamptz"),
)  # fmt: skip

# How long a row was certainly as it is: billed, or not begun.
_KNOWN: Final = "GREATEST(u.confirmed_at, n.known_at, CASE WHEN u.follows THEN look.confirmed_at END)"
_UNBEGUN: Final = "u.started_latest IS NULL AND n.started_by IS NULL"
_STARTED_BY: Final = f"""
CASE WHEN n.started_ceiling >= {_KNOWN} THEN LEAST(n.started_by, n.started_ceiling) ELSE n.started_by END
"""
_ENDED_BY: Final = f"""COALESCE(
    u.ended_latest, CASE WHEN n.ended_ceiling >= {_KNOWN} THEN LEAST(n.ended_by, n.ended_ceiling) ELSE n.ended_by END
)"""
_CHANGE: Final = f"""
UPDATE corral_usage AS u SET
    provider_id = COALESCE(n.becomes, u.provider_id),
    started_earliest = CASE WHEN u.started_latest IS NULL AND COALESCE(n.started_by, n.ended_by) IS NOT NULL
        THEN LEAST(GREATEST(u.started_earliest, {_KNOWN}), COALESCE({_STARTED_BY}, {_ENDED_BY}))
        ELSE u.started_earliest END,
    started_latest = COALESCE(u.started_latest, {_STARTED_BY}, {_ENDED_BY}),
    ended_latest = {_ENDED_BY},
    ended_earliest = CASE
        WHEN {_UNBEGUN} AND n.ended_by IS NULL THEN NULL
        WHEN {_UNBEGUN} THEN LEAST(GREATEST(u.started_earliest, {_KNOWN}), {_ENDED_BY})
        WHEN n.is_off THEN GREATEST(u.started_earliest, LEAST({_ENDED_BY}, GREATEST({_KNOWN}, n.ended_floor)))
        WHEN GREATEST({_KNOWN}, n.confirmed_at) >= {_ENDED_BY} THEN {_ENDED_BY}
    END,
    confirmed_at = GREATEST({_KNOWN}, n.confirmed_at),
    follows = n.follows,
    cause = CASE WHEN u.started_latest IS NULL THEN COALESCE(n.cause, u.cause) ELSE u.cause END,
    labels = CASE WHEN u.started_latest IS NULL AND n.cause IS NOT NULL THEN n.labels ELSE u.labels END
FROM corral_last_look AS look, {{rows}}
WHERE u.provider_id = n.provider_id AND u.kind = n.kind AND u.ended_earliest IS NULL
"""  # noqa: S608  # constants
_LISTED_WITHIN: Final = f"interval '{LISTED_WITHIN.total_seconds()} seconds'"
_BEGIN: Final = f"""
INSERT INTO corral_usage (instance_id, provider_id, kind, cause, unit_price, quantity, estimated, started_earliest,
                          started_latest, confirmed_at, follows, product_name, region, billing_mode, created_by, labels)
SELECT n.instance_id, n.provider_id, n.kind, n.cause, n.unit_price, n.quantity, n.estimated, start.earliest,
       CASE WHEN n.started_ceiling >= start.earliest THEN LEAST(n.started_by, n.started_ceiling) ELSE n.started_by END,
       n.confirmed_at, n.follows, n.product_name, n.region, n.billing_mode, n.created_by, n.labels
FROM corral_last_look AS look, {{rows}}, LATERAL (SELECT LEAST(
    GREATEST(
        n.since, n.started_floor, CASE WHEN n.after_listing THEN look.confirmed_at END,
        -- Earlier spans of the machine cover the time before.
        CASE WHEN n.unless_open OR n.replaces IS NOT NULL THEN (
            SELECT max(COALESCE(u.ended_latest, n.started_by)) FROM corral_usage AS u
            WHERE u.instance_id = n.instance_id AND u.provider_id = n.provider_id AND u.kind = n.kind
        ) END,
        -- The last listing that showed the machine before it showed no other, but for what listings show late.
        CASE WHEN n.replaces IS NOT NULL THEN (
            SELECT CASE WHEN max(known.at) <= n.unlisted_from THEN max(known.at) - {_LISTED_WITHIN} END
            FROM corral_usage AS u, LATERAL (
                SELECT GREATEST(
                    u.confirmed_at, CASE WHEN u.follows AND u.ended_earliest IS NULL THEN look.confirmed_at END
                ) AS at
            ) AS known
            WHERE u.instance_id = n.instance_id AND u.provider_id = n.replaces AND u.kind = n.kind
        ) END
    ), n.started_by
) AS earliest) AS start
WHERE (NOT n.unless_open OR NOT EXISTS (
    SELECT FROM corral_usage AS u
    WHERE u.provider_id = n.provider_id AND u.kind = n.kind AND u.ended_earliest IS NULL AND u.ended_latest IS NULL
))
"""  # noqa: S608  # constants


def _one(columns: Sequence[tuple[str, str]]) -> str:
    listed = ", ".join(f"${place}::{kind} AS {name}" for place, (name, kind) in enumerate(columns, 1))
    return f"(SELECT {listed}) AS n"  # constants


def _many(columns: Sequence[tuple[str, str]]) -> str:
    arrays = ", ".join(f"${place}::{kind}[]" for place, (_, kind) in enumerate(columns, 1))
    return f"unnest({arrays}) AS n ({', '.join(name for name, _ in columns)})"


# One row without arrays: PostgreSQL plans a join with arrays again each time, because the plan depends on their length.
_CHANGE_ONE, _CHANGE_MANY = (_CHANGE.format(rows=rows(_CHANGE_COLUMNS)) for rows in (_one, _many))
_BEGIN_ONE, _BEGIN_MANY = (_BEGIN.format(rows=rows(_NEW_COLUMNS)) for rows in (_one, _many))

_VOID: Final = """
DELETE FROM corral_usage WHERE provider_id = ANY($1::text[]) AND ended_earliest IS NULL
"""
CONFIRM_EVERY: Final = timedelta(minutes=1)
"""How often a row is written while listings do not show all machines. Shorter writes more rows; longer leaves the lower
bound of what a machine cost behind by as much."""
_CONFIRM: Final = """
UPDATE corral_usage SET confirmed_at = $2
WHERE ended_earliest IS NULL AND provider_id = ANY($1::text[]) AND follows
  AND confirmed_at < $2::timestamptz - $3::interval
"""
_LOOSE_CAUSES: Final = ", ".join(f"'{cause}'" for cause in sorted(UNRECORDED))
_END_LOOSE: Final = f"""
UPDATE corral_usage SET
    started_latest = COALESCE(started_latest, ended_latest, $2), ended_latest = COALESCE(ended_latest, $2),
    ended_earliest = LEAST(GREATEST(started_earliest, confirmed_at), COALESCE(ended_latest, $2))
WHERE ended_earliest IS NULL AND cause IN ({_LOOSE_CAUSES}) AND provider_id <> ALL ($1::text[])
"""  # noqa: S608  # constants


# Two statements, each with an index of its own: few rows are open, and of the others few end last.
_CLIP: Final = """
UPDATE corral_usage SET
    started_earliest = LEAST(started_earliest, $1),
    started_latest = CASE WHEN started_latest > $1 THEN $1 ELSE started_latest END,
    ended_earliest = CASE WHEN ended_earliest > $1 THEN LEAST(started_latest, $1) ELSE ended_earliest END,
    ended_latest = CASE WHEN ended_latest > $1 THEN $1 ELSE ended_latest END,
    confirmed_at = LEAST(confirmed_at, $1)
WHERE """
_CLIP_CLOSED: Final = f"{_CLIP} ended_earliest IS NOT NULL AND ended_latest > $1::timestamptz + $2::interval"
_CLIP_OPEN: Final = f"""
{_CLIP} ended_earliest IS NULL
  AND GREATEST(started_earliest, started_latest, ended_latest, confirmed_at) > $1::timestamptz + $2::interval
"""


def write(before: Instance | None, after: Instance, now: datetime, *, if_: str | None = None) -> list[Write]:
    """
    The writes for one instance that changes from *before* to *after*; none if nothing that is billed changes.

    With *if_* nothing is written unless the write of that name returned a row.
    """
    writes: list[Write] = []
    for change in usage_changes(before, after, now):
        place = len(writes)  # a combined statement needs a name for each
        if change.is_void and change.kind is UsageKind.GPU:  # the rows of both kinds
            writes.append(Write(f"void_usage_{place}", _only_if(_VOID, if_), ([change.provider_id],)))
        if change.changes_open:
            writes.append(Write(f"changed_usage_{place}", _only_if(_CHANGE_ONE, if_), _changed(change)))
        if change.begins is not None:
            writes.append(Write(f"new_usage_{place}", _only_if(_BEGIN_ONE, if_), _begun(change, change.begins)))
    return writes


@cache
def _only_if(sql: str, name: str | None) -> str:
    """*sql*, if the write called *name* returned a row; always the same text, which is hashed once."""
    return sql if name is None else f"{sql} AND {only_if(name)}"


def write_many(changes: Iterable[UsageChange]) -> list[Write]:
    """The writes for *changes* of any number of machines, to be run in this order."""
    found = list(changes)
    changed = [_changed(change) for change in found if change.changes_open]
    begun = [_begun(change, change.begins) for change in found if change.begins is not None]
    void = [change.provider_id for change in found if change.is_void]
    return [
        *([Write("void_usage", _VOID, (void,))] if void else []),
        *(
            Write(name, sql, [list(column) for column in zip(*rows, strict=True)])
            for name, sql, rows in (("changed_usage", _CHANGE_MANY, changed), ("new_usage", _BEGIN_MANY, begun))
            if rows
        ),
    ]


async def confirm(connection: Connection, machines: Sequence[str], at: datetime) -> None:
    """
    A listing that began at *at* showed these machines as recorded, though it did not show all.

    Rows that were confirmed within the last minute are left as they are.
    """
    await connection.execute(_CONFIRM, list(machines), at, CONFIRM_EVERY)


async def end_unlisted(connection: Connection, listed: Sequence[str], now: datetime) -> None:
    """End the usage of machines without a record that a listing, which is known to be right, does not show."""
    await connection.execute(_END_LOOSE, list(listed), now)


async def clip(connection: Connection, now: datetime) -> None:
    """
    Move bounds that lie after *now*, from before the clock was set back, to *now*.

    A span that such a bound ended may have ended at any time since it began.
    """
    for statement in (_CLIP_CLOSED, _CLIP_OPEN):
        await connection.execute(statement, now, CLOCK_SET_BACK)


async def unknown(connection: Connection, since: datetime) -> UnknownUsage | None:
    """Usage from *since* on that is not known; None: all of it is."""
    row = await connection.fetchrow(
        "SELECT max(until) AS before, count(*) FILTER (WHERE instance_id <> '') AS instances FROM corral_usage_gaps"
        " WHERE until > $1",
        since,
    )
    return None if row["before"] is None else UnknownUsage(before=row["before"], instances=row["instances"])


def _changed(change: UsageChange) -> tuple[Any, ...]:
    started, ended, terms = change.started, change.ended, change.terms
    return (
        change.provider_id,
        change.kind,
        change.follows,
        change.known_at,
        change.confirmed_at,
        None if started is None else started.by,
        None if started is None else started.ceiling,
        None if ended is None else ended.by,
        None if ended is None else ended.floor,
        None if ended is None else ended.ceiling,
        change.is_off,
        None if terms is None else terms.cause,
        None if terms is None else _labels(terms.labels),
        change.becomes,
    )


def _begun(change: UsageChange, new: NewUsage) -> tuple[Any, ...]:
    terms, started = new.terms, new.started
    return (
        terms.instance_id,
        change.becomes or change.provider_id,
        change.kind,
        terms.cause,
        terms.unit_price,
        terms.quantity,
        terms.is_estimated,
        new.since,
        new.after_listing,
        None if started is None else started.by,
        None if started is None else started.floor,
        None if started is None else started.ceiling,
        new.confirmed_at,
        change.follows,
        terms.product_name,
        terms.region,
        terms.billing_mode,
        terms.created_by,
        _labels(terms.labels),
        new.unless_open,
        new.replaces,
        new.unlisted_from,
    )


def _labels(labels: Labels) -> str | None:
    return msgspec.json.encode(dict(labels)).decode() if labels else None
