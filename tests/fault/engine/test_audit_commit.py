"""A command with a failed commit, or a killed process, leaves the change with its audit line, or neither."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import pytest
from support.engines.audit_lines import CONTEXT
from support.engines.fault_engine import FaultEngine, FaultEnvironment
from support.histories.script import Killed, Mishap

from corral.domain.errors import StoreUnavailableError
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.operation import OperationKind
from corral.domain.requests.lease import LeaseChange, read_lease_change
from corral.store.server.target import DatabaseTarget

COUNTS = """
SELECT (SELECT count(*) FROM corral_operations WHERE kind = 'delete') AS commands,
       (SELECT count(*) FROM corral_audit) AS lines
"""

LEASE_COUNTS = """
SELECT generation, (SELECT count(*) FROM corral_audit) AS lines, (SELECT count(*) FROM corral_events) AS events
FROM corral_instances WHERE id = $1
"""


@pytest.fixture
async def engine(target: DatabaseTarget) -> AsyncGenerator[FaultEngine]:
    environment = await FaultEnvironment.open(target)
    yield await environment.engine()
    await environment.close()


@pytest.mark.parametrize(
    ("mishap", "written"),
    [
        (Mishap.KILLED_BEFORE, 0),
        (Mishap.AWAY_BEFORE, 0),
        (Mishap.KILLED_AFTER, 1),
        (Mishap.AWAY_AFTER, 1),
    ],
)
async def test_a_command_is_committed_with_its_line_or_not(engine: FaultEngine, mishap: Mishap, written: int) -> None:
    """The command has one commit."""
    instance_id = await engine.request_create()
    engine.script.write([mishap])
    with contextlib.suppress(Killed, StoreUnavailableError):
        await engine.parts.change.record(OperationKind.DELETE, instance_id, CommandOptions(), CONTEXT)
    async with engine.environment.database.connection() as connection:
        counts = await connection.fetchrow(COUNTS)

    assert (counts["commands"], counts["lines"]) == (written, written)
    assert engine.script.mishaps == []


@pytest.mark.parametrize(("mishap", "written"), [(Mishap.KILLED_BEFORE, 0), (Mishap.KILLED_AFTER, 1)])
@pytest.mark.parametrize("is_use", [False, True])
async def test_a_change_of_a_lease_is_committed_with_its_line_or_not(
    engine: FaultEngine, mishap: Mishap, written: int, *, is_use: bool
) -> None:
    """A new lease with its event; a use has neither an event nor a line."""
    instance_id = await engine.request_create()
    change = read_lease_change({"maxDuration": "8h"})
    assert isinstance(change, LeaseChange)
    async with engine.environment.database.connection() as connection:
        before = await connection.fetchrow(LEASE_COUNTS, instance_id)
    engine.script.write([mishap])
    with contextlib.suppress(Killed, StoreUnavailableError):
        if is_use:
            await engine.parts.lease.use(instance_id, None, CONTEXT)
        else:
            await engine.parts.lease.change(instance_id, change, CONTEXT)
    async with engine.environment.database.connection() as connection:
        after = await connection.fetchrow(LEASE_COUNTS, instance_id)

    recorded = 0 if is_use else written
    assert after["generation"] - before["generation"] == written
    assert (after["lines"] - before["lines"], after["events"] - before["events"]) == (recorded, recorded)
    assert engine.script.mishaps == []
