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
from corral.store.server.target import DatabaseTarget

COUNTS = """
SELECT (SELECT count(*) FROM corral_operations WHERE kind = 'delete') AS commands,
       (SELECT count(*) FROM corral_audit) AS lines
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
