"""A create call and what may happen around it: a paused process, a long wait, a deletion, a deadline."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.fault_engine import Ground, Paddock
from support.script import OF_COMMITS, Mishap

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.tables import Phase
from corral.store.server.target import DatabaseTarget


@pytest.fixture
async def ground(target: DatabaseTarget) -> AsyncGenerator[Ground]:
    ground = await Ground.open(target)
    yield ground
    await ground.close()


async def listed(ground: Ground, **quirks: object) -> Paddock:
    """A paddock whose first listing was compared, without which nothing is created."""
    paddock = await ground.paddock(**quirks)
    with paddock.script.silently():
        await paddock.look()
    return paddock


async def disturbed(ground: Ground, mishap: Mishap, **quirks: object) -> tuple[Paddock, InstanceId]:
    """A create with *mishap* at its call or, if it is one of commits, at the commit of its intent right before."""
    calm = await listed(ground)
    await calm.wish()
    await calm.work()
    place = calm.script.steps.index("create") - (mishap in OF_COMMITS)
    paddock = await listed(ground, **quirks)
    paddock.script.write([*[Mishap.NONE] * place, mishap])
    instance_id = await paddock.wish()
    await paddock.work()
    assert not paddock.script.mishaps
    return paddock, instance_id


async def test_a_worker_paused_while_its_intent_is_committed_sends_nothing(ground: Ground) -> None:
    """Its lock is gone, another worker has given its attempt up and made the next: two machines would run."""
    paddock, instance_id = await disturbed(ground, Mishap.PAUSED)

    assert len(paddock.machines(instance_id)) == 1
    await paddock.settle()
    assert (await paddock.get(instance_id)).phase is Phase.READY
    assert not paddock.ledger().twice


async def test_a_create_that_waited_too_long_for_its_permit_is_not_sent(ground: Ground) -> None:
    """It certainly did not happen, so it is tried again without a doubt to settle."""
    paddock, instance_id = await disturbed(ground, Mishap.WAITED)

    assert paddock.machines(instance_id) == []
    assert not (await paddock.get(instance_id)).create_in_doubt
    await paddock.settle()
    assert (await paddock.get(instance_id)).phase is Phase.READY


async def test_a_create_whose_worker_is_stopped_while_it_waits_goes_on_at_once(ground: Ground) -> None:
    """It was certainly not sent, so a restart of the service leaves nothing in doubt."""
    paddock, instance_id = await disturbed(ground, Mishap.STOPPED_WAITING)

    assert not (await paddock.get(instance_id)).create_in_doubt
    await paddock.step()
    assert (await paddock.get(instance_id)).attempt == 2
    assert len(paddock.machines(instance_id)) == 1


async def test_a_create_deleted_while_it_waits_for_its_permit_is_not_sent(ground: Ground) -> None:
    """Nothing was asked for, so there is nothing to wait for either."""
    paddock, instance_id = await disturbed(ground, Mishap.DELETED_WAITING)

    await paddock.step()
    assert (await paddock.get(instance_id)).phase is Phase.TERMINATED
    assert paddock.machines(instance_id) == []
    assert not paddock.ledger().bills


async def test_an_id_returned_after_the_deletion_is_recorded(ground: Ground) -> None:
    """Else the machine would run on while the instance is called terminated, for as long as the list lags."""
    paddock, instance_id = await disturbed(ground, Mishap.UNWISHED_MEANWHILE, list_lag_seconds=90)

    known = await paddock.get(instance_id)
    assert [machine.id for machine in paddock.machines(instance_id)] == [known.provider_id]
    for _ in range(60):
        await paddock.step(5.0)
        gone = (await paddock.get(instance_id)).phase is Phase.TERMINATED
        assert not (gone and paddock.machines(instance_id)), "called terminated while the machine runs"
    assert [status for _, status in (await paddock.told())[instance_id]] == ["creating", "deleting", "terminated"]


async def test_an_id_is_recorded_through_a_new_connection_when_its_own_is_lost(ground: Ground) -> None:
    """The database closed the connection while the provider was asked; with a lagging list only the id finds it."""
    calm = await listed(ground)
    await calm.wish()
    await calm.work()
    paddock = await listed(ground, list_lag_seconds=90)
    paddock.script.write([*[Mishap.NONE] * (calm.script.steps.index("create") + 1), Mishap.AWAY_BEFORE])
    instance_id = await paddock.wish()
    await paddock.work()

    known = await paddock.get(instance_id)
    assert [machine.id for machine in paddock.machines(instance_id)] == [known.provider_id]


async def test_the_deadline_of_a_create_is_kept_in_doubt(ground: Ground) -> None:
    """A provider that cannot be listed does not keep an instance `creating` for ever; a late machine is still found."""
    paddock = await listed(ground, list_lag_seconds=240)
    instance_id = await paddock.wish(minutes=2)
    paddock.exchange.lose_next = "create"
    await paddock.work()
    for _ in range(6):
        await paddock.step(20.0, is_long=True)  # no listing comes to its end

    failed = await paddock.get(instance_id)
    assert failed.phase is Phase.FAILED
    assert failed.failure is not None
    assert failed.failure.code == "STARTUP_TIMEOUT"
    for _ in range(10):
        await paddock.step(20.0)
    assert (await paddock.get(instance_id)).phase is Phase.READY
    assert not paddock.ledger().twice
