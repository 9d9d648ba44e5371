"""A create call and what may happen around it: a paused process, a long wait, a deletion, a deadline."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.engines.fault_engine import FaultEngine, FaultEnvironment
from support.histories.script import OF_COMMITS, Mishap

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.store.server.target import DatabaseTarget


@pytest.fixture
async def environment(target: DatabaseTarget) -> AsyncGenerator[FaultEnvironment]:
    environment = await FaultEnvironment.open(target)
    yield environment
    await environment.close()


async def listed(environment: FaultEnvironment, **quirks: object) -> FaultEngine:
    """An engine after its first compared listing, before which nothing is created."""
    engine = await environment.engine(**quirks)
    with engine.script.silently():
        await engine.look()
    return engine


async def disturbed(environment: FaultEnvironment, mishap: Mishap, **quirks: object) -> tuple[FaultEngine, InstanceId]:
    """A create with *mishap* at its call or, if it is one of commits, at the commit of its intent right before."""
    calm = await listed(environment)
    await calm.request_create()
    await calm.work()
    place = calm.script.steps.index("create") - (mishap in OF_COMMITS)
    engine = await listed(environment, **quirks)
    engine.script.write([*[Mishap.NONE] * place, mishap])
    instance_id = await engine.request_create()
    await engine.work()
    assert not engine.script.mishaps
    return engine, instance_id


async def test_a_worker_paused_while_its_intent_is_committed_sends_nothing(environment: FaultEnvironment) -> None:
    """Its lock is gone, another worker has given its attempt up and made the next: two machines would run."""
    engine, instance_id = await disturbed(environment, Mishap.PAUSED)

    assert len(engine.machines(instance_id)) == 1
    await engine.settle()
    assert (await engine.get(instance_id)).phase is Phase.READY
    assert not engine.ledger().twice


async def test_a_create_that_waited_too_long_for_its_permit_is_not_sent(environment: FaultEnvironment) -> None:
    """It certainly did not happen, so it is tried again without a doubt to settle."""
    engine, instance_id = await disturbed(environment, Mishap.WAITED)

    assert engine.machines(instance_id) == []
    assert not (await engine.get(instance_id)).create_in_doubt
    await engine.settle()
    assert (await engine.get(instance_id)).phase is Phase.READY


async def test_a_create_continues_at_once_when_its_worker_is_stopped(environment: FaultEnvironment) -> None:
    """It was certainly not sent, so a restart of the service leaves nothing in doubt."""
    engine, instance_id = await disturbed(environment, Mishap.STOPPED_WAITING)

    assert not (await engine.get(instance_id)).create_in_doubt
    await engine.step()
    assert (await engine.get(instance_id)).create.number == 2
    assert len(engine.machines(instance_id)) == 1


async def test_a_create_deleted_while_it_waits_for_its_permit_is_not_sent(environment: FaultEnvironment) -> None:
    """Nothing was asked for, so there is nothing to wait for either."""
    engine, instance_id = await disturbed(environment, Mishap.DELETED_WAITING)

    await engine.step()
    assert (await engine.get(instance_id)).phase is Phase.TERMINATED
    assert engine.machines(instance_id) == []
    assert not engine.ledger().bills


async def test_an_id_returned_after_the_deletion_is_recorded(environment: FaultEnvironment) -> None:
    """Else the machine would run on while the instance is called terminated, for as long as the list lags."""
    engine, instance_id = await disturbed(environment, Mishap.UNWISHED_MEANWHILE, list_lag_seconds=90)

    known = await engine.get(instance_id)
    assert [machine.id for machine in engine.machines(instance_id)] == [known.provider_id]
    for _ in range(60):
        await engine.step(5.0)
        gone = (await engine.get(instance_id)).phase is Phase.TERMINATED
        assert not (gone and engine.machines(instance_id)), "called terminated while the machine runs"
    assert [status for _, status in (await engine.status_changes())[instance_id]] == [
        "creating",
        "deleting",
        "terminated",
    ]


async def test_an_id_is_recorded_through_a_new_connection_when_its_own_is_lost(environment: FaultEnvironment) -> None:
    """The database closed the connection while the provider was asked; with a lagging list only the id finds it."""
    calm = await listed(environment)
    await calm.request_create()
    await calm.work()
    engine = await listed(environment, list_lag_seconds=90)
    engine.script.write([*[Mishap.NONE] * (calm.script.steps.index("create") + 1), Mishap.AWAY_BEFORE])
    instance_id = await engine.request_create()
    await engine.work()

    known = await engine.get(instance_id)
    assert [machine.id for machine in engine.machines(instance_id)] == [known.provider_id]


async def test_the_deadline_of_a_create_is_kept_in_doubt(environment: FaultEnvironment) -> None:
    """A provider that cannot be listed does not keep an instance `creating` for ever; a late machine is still found."""
    engine = await listed(environment, list_lag_seconds=240)
    instance_id = await engine.request_create(minutes=2)
    engine.exchange.lose_next = "create"
    await engine.work()
    for _ in range(6):
        await engine.step(20.0, is_long=True)  # no listing comes to its end

    failed = await engine.get(instance_id)
    assert failed.phase is Phase.FAILED
    assert failed.failure is not None
    assert failed.failure.code == "STARTUP_TIMEOUT"
    for _ in range(10):
        await engine.step(20.0)
    assert (await engine.get(instance_id)).phase is Phase.READY
    assert not engine.ledger().twice
