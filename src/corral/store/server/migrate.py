"""
Migrations of the schema: numbered SQL files, append-only, applied once each under a lock.

`NNNN_name.sql` runs in one transaction with its entry in `corral_migrations`, so a migration is applied completely or
not, however many processes start at once. A database with a migration that this release does not have is refused: an
old release must not write into a newer schema.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import resources

import asyncpg

from corral.base.log import log
from corral.domain.errors import StoreNewerError
from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import CONNECT_TIMEOUT_SECONDS
from corral.store.session.database import driver_errors

LOCK_KEY = 0x636F7272616C  # "corral" in ASCII; any constant that no other program uses
_REGISTER = """
CREATE TABLE IF NOT EXISTS corral_migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str


def migrations() -> tuple[Migration, ...]:
    """Every migration of this release, in order."""
    files = [f for f in resources.files("corral.store.migrations").iterdir() if f.name.endswith(".sql")]
    found = []
    for file in sorted(files, key=lambda f: f.name):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(number=int(number), name=name, sql=file.read_text(encoding="utf-8")))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """The schema of a database, compared with this release."""

    server_version: str
    missing: tuple[str, ...]
    """Names of migrations that are not applied yet."""
    unknown: tuple[int, ...]
    """Numbers of applied migrations that only a newer release has."""
    at: datetime
    """The time by the server's clock."""


async def report(target: DatabaseTarget) -> SchemaReport:
    """Read the schema, without changes; raises StoreUnavailableError when the server cannot be reached."""
    steps = migrations()
    with driver_errors():
        connection = await asyncpg.connect(
            **target.arguments(),
            timeout=math.ceil(CONNECT_TIMEOUT_SECONDS),
            command_timeout=CONNECT_TIMEOUT_SECONDS,
        )
        try:
            version = str(await connection.fetchval("SHOW server_version"))
            known = set[int]()
            if await connection.fetchval("SELECT to_regclass('corral_migrations') IS NOT NULL"):
                known = {row["number"] for row in await connection.fetch("SELECT number FROM corral_migrations")}
            at = await connection.fetchval("SELECT clock_timestamp()")
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT_SECONDS)
    return SchemaReport(
        server_version=version.split(" ", maxsplit=1)[0],
        missing=tuple(step.name for step in steps if step.number not in known),
        unknown=tuple(sorted(known - {step.number for step in steps})),
        at=at,
    )


async def migrate(
    target: DatabaseTarget,
    *,
    first: Callable[[asyncpg.Connection], Awaitable[None]] | None = None,
    steps: Sequence[Migration] | None = None,
) -> list[Migration]:
    """
    Apply and return the missing migrations; *first* runs before, under the same lock (it installs the queue's tables).

    Raises StoreNewerError when the database has migrations this release does not know.
    """
    steps = migrations() if steps is None else steps
    async with _locked(target) as connection:
        await connection.execute(_REGISTER)
        known = {row["number"] for row in await connection.fetch("SELECT number FROM corral_migrations")}
        unknown = sorted(known - {step.number for step in steps})
        if unknown:
            raise StoreNewerError(
                f"the database has migration {unknown[-1]}, this release of Corral knows only up to "
                f"{max((s.number for s in steps), default=0)}: run the newer release, or restore an older database"
            )
        if first is not None:
            await first(connection)
        missing = [step for step in steps if step.number not in known]
        for step in missing:
            async with connection.transaction():
                await connection.execute(step.sql)
                await connection.execute(
                    "INSERT INTO corral_migrations (number, name) VALUES ($1, $2)", step.number, step.name
                )
            log.info("database.migrated", number=step.number, name=step.name)
        return missing


@asynccontextmanager
async def _locked(target: DatabaseTarget) -> AsyncGenerator[asyncpg.Connection]:
    """A connection of its own that holds the migration lock until it closes."""
    with driver_errors():
        connection = await asyncpg.connect(**target.arguments(), timeout=math.ceil(CONNECT_TIMEOUT_SECONDS))
        try:
            await connection.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
            yield connection
        finally:
            await connection.close()
