"""The schema is migrated once, by the first process."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from corral.domain.errors import StoreNewerError, StoreUnavailableError
from corral.jobs.pgqueuer_adapter import install
from corral.store.server.migrate import Migration, migrate, migrations
from corral.store.server.target import DatabaseTarget

STEPS = (
    Migration(number=1, name="first", sql="CREATE TABLE things (id integer); INSERT INTO things VALUES (1)"),
    Migration(number=2, name="second", sql="ALTER TABLE things ADD COLUMN name text"),
)


@pytest.fixture
async def empty(target: DatabaseTarget) -> DatabaseTarget:
    connection = await asyncpg.connect(**target.arguments())
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    return target


async def test_each_step_is_applied_once_however_many_start_together(empty: DatabaseTarget) -> None:
    """Ten processes that start at once migrate once."""
    done = await asyncio.gather(*(migrate(empty, first=install, steps=STEPS) for _ in range(10)))

    assert sorted(step.number for steps in done for step in steps) == [1, 2]
    assert await migrate(empty, steps=STEPS) == []


async def test_a_failing_step_leaves_nothing_behind(empty: DatabaseTarget) -> None:
    """Half a migration is none; the next start tries again."""
    broken = replace(STEPS[1], sql="ALTER TABLE things ADD COLUMN name text; SELECT 1/0")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty, steps=[STEPS[0], broken])

    assert [step.number for step in await migrate(empty, steps=STEPS)] == [2]


async def test_a_database_newer_than_the_code_is_refused(empty: DatabaseTarget) -> None:
    """An old release must not write into a schema it has never seen."""
    await migrate(empty, steps=STEPS)

    with pytest.raises(StoreNewerError, match="has migration 2, this release of Corral knows only up to 1"):
        await migrate(empty, steps=STEPS[:1])


async def test_an_unreachable_server_is_reported_as_such(empty: DatabaseTarget) -> None:
    """Not as a stack trace of the driver."""
    with pytest.raises(StoreUnavailableError):
        await migrate(replace(empty, host="/nonexistent"))


def test_the_numbers_of_the_migrations_have_no_gap_and_no_double() -> None:
    """Two branches that both add number 7 must not both be merged unseen."""
    numbers = [step.number for step in migrations()]

    assert numbers == list(range(1, len(numbers) + 1))
