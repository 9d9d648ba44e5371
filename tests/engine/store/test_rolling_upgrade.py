"""Processes of the release before go on, on the schema of the next: what they write and read is still there."""

from __future__ import annotations

import asyncpg
import pytest

from corral.jobs.pgqueuer_adapter import install
from corral.store.server.migrate import Migration, migrate, migrations
from corral.store.server.target import DatabaseTarget

FIRST_THAT_CHANGES_A_TABLE = 8
"""Migration 8 adds columns to tables that processes of the release before write to."""
_COLUMNS = """
SELECT table_name, column_name, data_type,
       is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES' AS free
FROM information_schema.columns WHERE table_schema = 'public' AND table_name LIKE 'corral%'
"""
_RULES = """
SELECT conrelid::regclass::text AS table_name, conname, pg_get_constraintdef(oid) AS rule
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
"""
OLD_INSTANCE = """
INSERT INTO corral_instances
    (id, name, goal, phase, region, provider_id, generation, create_in_doubt, created_at, look_at, record)
VALUES ('inst_old', 'worker', 'running', 'creating', 'CN-HK-01', NULL, 0, false, now(), NULL, '{}')
"""
OLD_READY_TIME = "INSERT INTO corral_ready_times (product_name, seconds) VALUES ('RTX 4090 24GB', 61.5)"

Shape = dict[tuple[str, str], tuple[str, bool]]
"""Of each column of each table: its type, and whether a row may be written without it."""


@pytest.fixture
async def empty(target: DatabaseTarget) -> DatabaseTarget:
    connection = await asyncpg.connect(**target.arguments())
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    return target


async def shape(connection: asyncpg.Connection) -> Shape:
    return {
        (row["table_name"], row["column_name"]): (row["data_type"], row["free"])
        for row in await connection.fetch(_COLUMNS)
    }


async def rules(connection: asyncpg.Connection) -> set[tuple[str, str, str]]:
    return {(row["table_name"], row["conname"], row["rule"]) for row in await connection.fetch(_RULES)}


def up_to(number: int) -> list[Migration]:
    return [step for step in migrations() if step.number <= number]


@pytest.mark.parametrize("number", [step.number for step in migrations()[1:]])
async def test_a_migration_only_adds(empty: DatabaseTarget, number: int) -> None:
    """Nothing the release before knows goes, changes its type, or wants more of a row than it did."""
    await migrate(empty, first=install, steps=up_to(number - 1))
    connection = await asyncpg.connect(**empty.arguments())
    before, bound = await shape(connection), await rules(connection)
    await migrate(empty, first=install, steps=up_to(number))
    after, bound_now = await shape(connection), await rules(connection)
    await connection.close()
    known = {table for table, _ in before}

    assert {column: after.get(column) for column in before} == before
    added = {column: kind for column, kind in after.items() if column not in before and column[0] in known}
    assert all(free for _, free in added.values()), f"a row without these cannot be written any more: {added}"
    assert {rule for rule in bound_now - bound if rule[0] in known} == set()


async def test_what_the_release_before_writes_is_taken_by_the_next(empty: DatabaseTarget) -> None:
    """Its very statements, before and after the first migration that changes a table they write to."""
    await migrate(empty, first=install, steps=up_to(FIRST_THAT_CHANGES_A_TABLE - 1))
    connection = await asyncpg.connect(**empty.arguments())
    await connection.execute(OLD_READY_TIME)
    await migrate(empty, first=install)
    await connection.execute(OLD_INSTANCE)
    await connection.execute(OLD_READY_TIME)
    costs = await connection.fetchval("SELECT micro_usd FROM corral_instances WHERE id = 'inst_old'")
    kinds = await connection.fetch("SELECT kind FROM corral_ready_times")
    await connection.close()

    assert costs == 0
    assert [row["kind"] for row in kinds] == ["create", "create"]
