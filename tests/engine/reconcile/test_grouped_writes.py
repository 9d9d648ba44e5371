"""Reconciles that record something at the same time share a commit, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import asyncpg
from support.engines.stepped_engine import SteppedEngine

from corral.domain.instance import Instance, ProviderId
from corral.engine.reconcile.grouped_writes import GroupedWrites
from corral.store.session.database import Database
from corral.store.tables import instances

IS_UPDATED = "SELECT EXISTS (SELECT FROM updated_instance) AS is_updated"


async def _three(engine: SteppedEngine, database: Database) -> list[Instance]:
    """Three new instances with a machine each, as they would be written."""
    ids = [await engine.request_create() for _ in range(3)]
    async with database.connection() as connection:
        found = [await instances.load(connection, instance_id) for instance_id in ids]
    return [replace(one, provider_id=ProviderId(f"machine-{one.id}")) for one in found if one is not None]


async def _write(database: Database, changed: list[Instance]) -> list[Any]:
    grouped = GroupedWrites(database=database)
    return await asyncio.gather(
        *(grouped.run([instances.update(one, wake_at=None)], IS_UPDATED) for one in changed), return_exceptions=True
    )


async def _recorded(database: Database, changed: list[Instance]) -> tuple[list[str | None], int]:
    """The machine that is recorded for each, and in how many transactions they were last written."""
    ids = [one.id for one in changed]
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT id, provider_id, xmin FROM corral_instances WHERE id = ANY($1)", ids)
    machines = {row["id"]: row["provider_id"] for row in rows}
    return [machines[one] for one in ids], len({row["xmin"] for row in rows})


async def test_simultaneous_writes_are_committed_together(engine: SteppedEngine, database: Database) -> None:
    changed = await _three(engine, database)

    outcomes = await _write(database, changed)

    assert [outcome["is_updated"] for outcome in outcomes] == [True, True, True]
    assert await _recorded(database, changed) == ([one.provider_id for one in changed], 1)


async def test_a_stale_write_is_refused_alone(engine: SteppedEngine, database: Database) -> None:
    first, second, third = await _three(engine, database)
    await _write(database, [second])

    outcomes = await _write(database, [first, replace(second, provider_id=ProviderId("other")), third])

    assert [outcome["is_updated"] for outcome in outcomes] == [True, False, True]
    machines, _ = await _recorded(database, [first, second, third])
    assert machines == [first.provider_id, second.provider_id, third.provider_id]


async def test_a_write_that_fails_fails_alone(engine: SteppedEngine, database: Database) -> None:
    """Here a machine that another record has; its reconcile gets the error, and the others are written."""
    first, second, third = await _three(engine, database)
    await _write(database, [first])

    before, failed, after = await _write(
        database, [replace(first, generation=1), replace(second, provider_id=first.provider_id), third]
    )

    assert isinstance(failed, asyncpg.UniqueViolationError)
    assert (before["is_updated"], after["is_updated"]) == (True, True)
    machines, _ = await _recorded(database, [first, second, third])
    assert machines == [first.provider_id, None, third.provider_id]
