"""Several writes in one statement, on the real database."""

from __future__ import annotations

import asyncpg
import pytest

from corral.store.session.database import Database
from corral.store.sql.combined_statement import Write, run_combined

COUNTS = "SELECT (SELECT count(*) FROM first) AS first, (SELECT count(*) FROM second) AS second"


async def asked(database: Database, *writes: Write) -> dict[str, int]:
    async with database.connection() as connection:
        return dict(await run_combined(connection, writes, COUNTS))


async def marks(database: Database) -> list[str]:
    async with database.connection() as connection:
        return [row["mark"] for row in await connection.fetch("SELECT mark FROM made ORDER BY mark")]


def adding(name: str, *values: str, if_: str | None = None) -> Write:
    sql = "INSERT INTO made SELECT * FROM unnest($1::text[]) AS new WHERE new <> $2"
    return Write(
        name, f"{sql}{'' if if_ is None else f' AND EXISTS (SELECT FROM {if_})'} RETURNING mark", (values, "-")
    )


@pytest.fixture(autouse=True)
async def _made(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE made (mark text PRIMARY KEY)")


async def test_each_write_has_its_own_arguments(database: Database) -> None:
    """They are counted through; whatever a write returns can be asked for."""
    reported = await asked(database, adding("first", "a", "b"), adding("second", "c", if_="first"))

    assert (reported, await marks(database)) == ({"first": 2, "second": 1}, ["a", "b", "c"])


async def test_what_depends_on_a_write_that_changes_nothing_is_not_made(database: Database) -> None:
    """So a stale change leaves no event and no operation behind."""
    reported = await asked(database, adding("first", "-"), adding("second", "c", if_="first"))

    assert (reported, await marks(database)) == ({"first": 0, "second": 0}, [])


async def test_when_one_fails_none_is_made(database: Database) -> None:
    """Whichever it is."""
    with pytest.raises(asyncpg.UniqueViolationError):
        await asked(database, adding("first", "a"), adding("second", "b", "b"))

    assert await marks(database) == []
