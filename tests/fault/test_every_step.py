"""Every step of every flow fails once, and runs twice; each time all ends well."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.fault_engine import Ground, Paddock
from support.script import Mishap
from support.steps import Flow, every_step_fails_once, every_step_runs_twice

from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget

MISHAPS = (
    Mishap.KILLED_BEFORE,
    Mishap.KILLED_AFTER,
    Mishap.AWAY_BEFORE,
    Mishap.AWAY_AFTER,
    Mishap.REFUSED,
    Mishap.ERROR_500,
    Mishap.LOST_REPLY,
    Mishap.HELD_BACK_KILLED,
    Mishap.SEEN_MEANWHILE,
)


async def create(paddock: Paddock) -> None:
    """From a wish to ready."""
    await paddock.wish()
    await paddock.work()
    for _ in range(4):
        await paddock.step()


async def delete(paddock: Paddock) -> None:
    """From ready to terminated."""
    with paddock.script.silently():
        await create(paddock)
    await paddock.unwish(paddock.wishes[0])
    await paddock.work()
    for _ in range(4):
        await paddock.step()


async def delete_in_doubt(paddock: Paddock) -> None:
    """Not wanted any more before anybody knows whether it exists."""
    paddock.exchange.lose_next = "create"
    with paddock.script.silently():
        await paddock.wish()
        await paddock.work()
    await paddock.unwish(paddock.wishes[0])
    await paddock.work()
    for _ in range(5):
        await paddock.step()


async def health(paddock: Paddock) -> None:
    """Unhealthy for a while, then healthy."""
    paddock.prober.healthy = False
    with paddock.script.silently():
        await paddock.wish()
        await paddock.work()
        await paddock.step()
        await paddock.step()
    await paddock.step()
    await paddock.step()
    paddock.prober.healthy = True
    await paddock.step()
    await paddock.step()


async def _asked(paddock: Paddock, kind: OperationKind) -> None:
    assert await paddock.ask(kind, paddock.wishes[0]), f"a {kind} was refused"
    await paddock.work()
    for _ in range(4):
        await paddock.step()


async def stop(paddock: Paddock) -> None:
    """From ready to exited."""
    with paddock.script.silently():
        await create(paddock)
    await _asked(paddock, OperationKind.STOP)


async def start(paddock: Paddock) -> None:
    """From exited to ready."""
    with paddock.script.silently():
        await stop(paddock)
    await _asked(paddock, OperationKind.START)


async def restart(paddock: Paddock) -> None:
    """From ready to ready."""
    with paddock.script.silently():
        await create(paddock)
    await _asked(paddock, OperationKind.RESTART)


async def stop_while_starting(paddock: Paddock) -> None:
    """A start whose answer was lost, and then not wanted any more."""
    with paddock.script.silently():
        await stop(paddock)
        paddock.exchange.lose_next = "start"
        await paddock.ask(OperationKind.START, paddock.wishes[0])
        await paddock.work()
    await _asked(paddock, OperationKind.STOP)


FLOWS = pytest.mark.parametrize(
    "flow", [create, delete, delete_in_doubt, health, stop, start, restart, stop_while_starting]
)


@pytest.fixture
async def ground(target: DatabaseTarget) -> AsyncGenerator[Ground]:
    ground = await Ground.open(target)
    yield ground
    await ground.close()


@FLOWS
async def test_every_step_fails_once(ground: Ground, flow: Flow) -> None:
    """Whatever goes wrong, and wherever, it comes to the same end and nobody is billed twice."""
    assert await every_step_fails_once(ground, flow, MISHAPS) == []


@FLOWS
async def test_every_step_runs_twice(ground: Ground, flow: Flow) -> None:
    """A job delivered twice tells nothing twice; one taken over does nothing twice."""
    assert await every_step_runs_twice(ground, flow) == []
