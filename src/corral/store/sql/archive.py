"""
Rows as lines of JSON, written and read by PostgreSQL itself, to copy the data of one database into another.

`EXPORTED` names every table with rows that cannot be obtained again, in the order in which they may be written;
`NOT_EXPORTED` the others. Rows keep their ids, so references between them stay valid.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import asyncpg

from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Connection, Database

EXPORTED: Final[Mapping[str, str]] = {
    "key": "corral_keys",
    "instance": "corral_instances",
    "operation": "corral_operations",
    "secret": "corral_secrets",
    "usage": "corral_usage",
    "usageGap": "corral_usage_gaps",
    "event": "corral_events",
    "delivery": "corral_deliveries",
    "attempt": "corral_delivery_attempts",
    "silenced": "corral_silenced_receivers",
    "readyTime": "corral_ready_times",
    "answer": "corral_idempotency",
    "budget": "corral_budgets",
    "audit": "corral_audit",
}
"""The tables by the `kind` of their lines; a table comes after those it refers to."""

NOT_EXPORTED: Final = frozenset(
    {
        "corral_failed_offers",
        "corral_finished_jobs",
        "corral_idle_samples",  # read from the provider again
        "corral_installation",  # its one row is the id of the installation, which the header has
        "corral_job_pause",
        "corral_last_look",  # of which the header has until when usage is certain
        "corral_migrations",
        "corral_orphans",  # found again by the next listing, with a new grace period
        "corral_processes",
        "corral_provider_budget",
        "corral_reconciliations",  # compared with the bill again
        "corral_request_counts",
        "corral_shortages",
    }
)
"""Rows that expire within minutes or are created again, like those of the job queue."""

_ORDER: Final = {
    "attempt": "delivery_id, number",
    "silenced": "instance_id, url",
    "answer": "key",
    "budget": "name",
    "secret": "instance_id",
    "usageGap": "instance_id",
}
_NUMBERED: Final = ("usage", "event", "delivery", "readyTime", "audit")
"""Kinds with serial ids; after an import the sequence continues after the largest id."""
_FETCHED_AT_ONCE: Final = 500
_REFUSALS: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,  # an id that is too long for an index
)


class BadRowError(Exception):
    """PostgreSQL refuses a row; the message is PostgreSQL's."""


@asynccontextmanager
async def snapshot(database: Database) -> AsyncGenerator[Connection]:
    """A connection that reads one snapshot of the whole database, and blocks no writer."""
    async with (
        database.connection() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        yield connection


async def schema(connection: Connection) -> int:
    """The number of the last migration; 0 when Corral has never used this database."""
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
        list(EXPORTED.values()),
    )
    found = {row["name"]: frozenset(row["columns"]) for row in rows}
    return {kind: found[table] for kind, table in EXPORTED.items() if table in found}


async def counts(connection: Connection) -> dict[str, int]:
    """How many rows of every kind there are."""
    return {
        kind: await connection.fetchval(f"SELECT count(*) FROM {EXPORTED[kind]}")  # noqa: S608  # a constant
        for kind in await columns(connection)
    }


async def usage_confirmed_at(connection: Connection) -> datetime | None:
    """Until when the usage of machines that are in every listing is certain, if this schema has usage."""
    if "usage" not in await columns(connection):
        return None
    at: datetime | None = await connection.fetchval("SELECT confirmed_at FROM corral_last_look")
    return at


async def lines(connection: Connection, kind: str) -> AsyncGenerator[str]:
    """Every row of a kind as a line of JSON; call it within `snapshot`."""
    line = f"""'{{"kind":"{kind}","row":' || row_to_json(t)::text || '}}'"""
    query = f"SELECT {line} AS line FROM {EXPORTED[kind]} AS t ORDER BY {_ORDER.get(kind, 'id')}"  # noqa: S608  # constants
    async for row in connection.cursor(query, prefetch=_FETCHED_AT_ONCE):
        yield row["line"]


async def add(connection: Connection, kind: str, names: Sequence[str], rows: Sequence[str]) -> None:
    """
    Insert rows of a kind, each a JSON object of these columns; raises BadRowError, and inserts none, for a bad one.

    Call it within a transaction, which remains usable after the error.
    """
    listed = ", ".join(f'"{name}"' for name in names)
    statement = (
        f"INSERT INTO {EXPORTED[kind]} ({listed}) OVERRIDING SYSTEM VALUE"  # noqa: S608  # columns that the table has
        f" SELECT {listed} FROM json_populate_recordset(NULL::{EXPORTED[kind]}, $1::json)"
    )
    try:
        async with connection.transaction():
            await connection.execute(statement, f"[{','.join(rows)}]")
    except _REFUSALS as error:
        raise BadRowError(str(error).splitlines()[0]) from error


async def finish_import(connection: Connection, now: datetime, *, usage_confirmed_at: datetime | None) -> None:
    """After all rows are inserted: advance the sequences, and make every instance due for a reconcile."""
    for table in [EXPORTED[kind] for kind in await columns(connection) if kind in _NUMBERED]:
        last = f"(SELECT max(id) FROM {table})"  # noqa: S608  # a constant
        await connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {last})")
    # Jobs are not exported: every instance is due instead.
    await connection.execute("UPDATE corral_instances SET look_at = $1 WHERE phase <> $2", now, Phase.TERMINATED.value)
    if "lease" in (await columns(connection))["instance"]:  # older schemas have no leases
        # What was announced then may have been extended since: it is announced again.
        await connection.execute("UPDATE corral_instances SET lease = lease - 'notice' WHERE lease ? 'notice'")
    # The defaults of this row mean that the database is not the exported one (`installation/continuity.py`).
    await connection.execute("DELETE FROM corral_last_look; INSERT INTO corral_last_look DEFAULT VALUES")
    if usage_confirmed_at is not None:  # older schemas have no usage
        await connection.execute("UPDATE corral_last_look SET confirmed_at = $1", usage_confirmed_at)


async def waiting_receivers(connection: Connection) -> list[tuple[str, str]]:
    """Instances with a pending delivery, with the host of its receiver."""
    rows = await connection.fetch(
        "SELECT DISTINCT ON (instance_id) instance_id, host FROM corral_deliveries WHERE status = 'pending'"
    )
    return [(row["instance_id"], row["host"]) for row in rows]
