"""
What is remembered, out of one database and into another: rows as lines of JSON, made and read by PostgreSQL itself.

`KEPT` names every table whose rows cannot be learnt again, in the order in which they may be written; `LEARNT` the
others. Rows leave as they are, ids and all, so that what refers to them still does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import asyncpg

from corral.domain.lifecycle.tables import Phase
from corral.store.session.database import Connection, Database

KEPT: Final[Mapping[str, str]] = {
    "key": "corral_keys",
    "instance": "corral_instances",
    "operation": "corral_operations",
    "event": "corral_events",
    "delivery": "corral_deliveries",
    "attempt": "corral_delivery_attempts",
    "silenced": "corral_silenced_receivers",
    "readyTime": "corral_ready_times",
    "answer": "corral_idempotency",
    "audit": "corral_audit",
}
"""What a line calls them, and their table; a table comes after those it refers to."""

LEARNT: Final = frozenset(
    {
        "corral_failed_offers",
        "corral_finished_jobs",
        "corral_installation",  # its one row is the mark, which the header has
        "corral_job_pause",
        "corral_last_look",
        "corral_migrations",
        "corral_orphans",  # seen again at the next look, and spared for as long again
        "corral_processes",
        "corral_provider_budget",
        "corral_request_counts",
        "corral_shortages",
    }
)
"""What is forgotten within minutes or made anew; the queue's own tables are too: a job only says where to look."""

_ORDER: Final = {"attempt": "delivery_id, number", "silenced": "instance_id, url", "answer": "key"}
_NUMBERED: Final = ("event", "delivery", "readyTime", "audit")
"""Kinds whose ids count up; after rows came with ids of their own, the count goes on behind them."""
_FETCHED_AT_ONCE: Final = 500
_REFUSALS: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,  # an id that is too long for an index
)


class BadRowError(Exception):
    """PostgreSQL does not take a row; says why, in its words."""


@asynccontextmanager
async def snapshot(database: Database) -> AsyncGenerator[Connection]:
    """One moment of the whole database, however long reading it takes; nobody waits for it."""
    async with (
        database.connection() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        yield connection


async def schema(connection: Connection) -> int:
    """The number of the last migration; 0 when there is nothing of ours here."""
    if not await connection.fetchval("SELECT to_regclass('corral_migrations') IS NOT NULL"):
        return 0
    number: int = await connection.fetchval("SELECT coalesce(max(number), 0) FROM corral_migrations")
    return number


async def columns(connection: Connection) -> dict[str, frozenset[str]]:
    """The columns of every kind that this schema has."""
    rows = await connection.fetch(
        "SELECT c.relname AS name, array_agg(a.attname::text) AS columns"
        " FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " WHERE c.oid = ANY(SELECT to_regclass(name) FROM unnest($1::text[]) AS name) GROUP BY 1",
        list(KEPT.values()),
    )
    found = {row["name"]: frozenset(row["columns"]) for row in rows}
    return {kind: found[table] for kind, table in KEPT.items() if table in found}


async def counts(connection: Connection) -> dict[str, int]:
    """How many rows of every kind there are."""
    return {
        kind: await connection.fetchval(f"SELECT count(*) FROM {KEPT[kind]}")  # noqa: S608  # a constant
        for kind in await columns(connection)
    }


async def lines(connection: Connection, kind: str) -> AsyncGenerator[str]:
    """Every row of a kind as a line of JSON; to be called within `snapshot`."""
    line = f"""'{{"kind":"{kind}","row":' || row_to_json(t)::text || '}}'"""
    query = f"SELECT {line} AS line FROM {KEPT[kind]} AS t ORDER BY {_ORDER.get(kind, 'id')}"  # noqa: S608  # constants
    async for row in connection.cursor(query, prefetch=_FETCHED_AT_ONCE):
        yield row["line"]


async def add(connection: Connection, kind: str, names: Sequence[str], rows: Sequence[str]) -> None:
    """
    Write rows of a kind, each a JSON object of these columns; raises BadRowError, and writes none, for a bad one.

    To be called within a transaction, which goes on after the error.
    """
    listed = ", ".join(f'"{name}"' for name in names)
    statement = (
        f"INSERT INTO {KEPT[kind]} ({listed}) OVERRIDING SYSTEM VALUE"  # noqa: S608  # columns that the table has
        f" SELECT {listed} FROM json_populate_recordset(NULL::{KEPT[kind]}, $1::json)"
    )
    try:
        async with connection.transaction():
            await connection.execute(statement, f"[{','.join(rows)}]")
    except _REFUSALS as error:
        raise BadRowError(str(error).splitlines()[0]) from error


async def take_up(connection: Connection, now: datetime) -> None:
    """After all rows are written: where the counting goes on, and that everything is to be looked at."""
    for table in [KEPT[kind] for kind in await columns(connection) if kind in _NUMBERED]:
        last = f"(SELECT max(id) FROM {table})"  # noqa: S608  # a constant
        await connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {last})")
    # Jobs stay behind. What they would have looked at is looked at because its time has come.
    await connection.execute("UPDATE corral_instances SET look_at = $1 WHERE phase <> $2", now, Phase.TERMINATED.value)
    # By its defaults this row says that the database is not the one that was exported (`tables/continuity.py`).
    await connection.execute("DELETE FROM corral_last_look; INSERT INTO corral_last_look DEFAULT VALUES")


async def waiting_receivers(connection: Connection) -> list[tuple[str, str]]:
    """The instances that something is still to be told of, and to which host."""
    rows = await connection.fetch(
        "SELECT DISTINCT ON (instance_id) instance_id, host FROM corral_deliveries WHERE status = 'pending'"
    )
    return [(row["instance_id"], row["host"]) for row in rows]
