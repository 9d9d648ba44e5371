"""The proof: in no random history of faults, deaths and races is a wish billed twice, lost or forgotten."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest
import uvloop
from conftest import TEMPLATE
from support.histories import Stage, play
from support.paddock import Ground

from corral.store.target import DatabaseTarget


@pytest.fixture
def stage(server: DatabaseTarget) -> Generator[Stage]:
    with opened(server) as stage:
        yield stage


@contextmanager
def opened(server: DatabaseTarget, **choices: Any) -> Generator[Stage]:
    name = f"proof_{secrets.token_hex(6)}"
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_statement(server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY file_copy"))
        ground = runner.run(Ground.open(server.named(name), **choices))
        try:
            yield Stage(ground, runner)
        finally:
            runner.run(ground.close())
            runner.run(_statement(server, f"DROP DATABASE {name} WITH (FORCE)"))


async def _statement(server: DatabaseTarget, statement: str) -> None:
    connection = await asyncpg.connect(**server.arguments())
    await connection.execute(statement)
    await connection.close()


@pytest.mark.timeout(600)
def test_no_history_bills_twice_loses_or_forgets(stage: Stage) -> None:
    """Judged by the simulator's ledger and by what was told, after every step and at the end."""
    play(stage, histories=2000)
