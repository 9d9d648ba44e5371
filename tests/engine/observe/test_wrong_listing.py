"""A list that is wrong proves nothing, costs few calls, and does not keep a lost create from being found."""

from __future__ import annotations

import pytest
from support.engines.engine_steps import look_up_changing
from support.engines.stepped_engine import SteppedEngine

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
BUSY = 20


def calls(engine: SteppedEngine, endpoint: str) -> int:
    return int(engine.sim.calls()["endpoints"].get(endpoint, {"total": 0})["total"])


async def all_ready(engine: SteppedEngine, count: int) -> list[InstanceId]:
    requested = [await engine.request_create() for _ in range(count)]
    for instance_id in requested:
        await engine.until(instance_id, Phase.READY)
    return requested


async def test_an_empty_list_while_machines_run_is_not_proof_that_a_create_did_not_happen(
    engine: SteppedEngine,
) -> None:
    """One create reply is lost while the list says that there is nothing; lookups show that the list is wrong."""
    ready = await all_ready(engine, BUSY)
    engine.sim.set(list_shows="nothing")
    engine.sim.fault("lost_reply", on="create")
    instance_id = await engine.request_create()
    before = calls(engine, "get")
    await engine.steps(60)

    assert calls(engine, "get") - before <= 40, "lookups of machines that the list lacks are repeated at growing pauses"
    assert (await engine.get(instance_id)).create_in_doubt
    assert calls(engine, "create") == BUSY + 1
    assert [await engine.phase(each) for each in ready] == [Phase.READY] * BUSY

    engine.sim.set(list_shows="all")
    await engine.until(instance_id, Phase.READY)
    assert engine.sim.ledger(OURS).most_at_once == 1


async def test_one_that_goes_while_the_list_is_wrong_is_noticed(engine: SteppedEngine) -> None:
    """By the repeated lookup; from then on the list is not known to be wrong any more."""
    (instance_id,) = await all_ready(engine, 1)
    engine.sim.set(list_shows="nothing")
    await engine.steps(10)
    engine.sim.fault("vanish")
    gone = await engine.until(instance_id, Phase.FAILED, seconds=10)

    assert gone.failure is not None
    assert gone.failure.code == "INSTANCE_VANISHED"


async def test_when_all_are_gone_at_once_all_are_noticed(engine: SteppedEngine) -> None:
    """A few are looked up first; once they are not found, so are the others."""
    requested = await all_ready(engine, BUSY)
    engine.sim.fault("vanish")
    await engine.steps(30)

    assert {await engine.phase(instance_id) for instance_id in requested} == {Phase.FAILED}


async def direct_lookups(engine: SteppedEngine, seconds: float, rounds: int) -> None:
    """What a service does when its listing never ends."""
    for _ in range(rounds):
        engine.clock.advance(seconds)
        engine.sim.advance(seconds)
        await engine.observer.sweep()
        await look_up_changing(engine.observer)
        await engine.work()


async def test_a_lost_create_is_found_by_its_name_with_one_call(engine: SteppedEngine) -> None:
    """However large the account is, and however long its listing takes."""
    engine.sim.fault("lost_reply", on="create")
    instance_id = await engine.request_create()
    await engine.work()
    listed = calls(engine, "list")
    await direct_lookups(engine, 5, 2)
    found = await engine.get(instance_id)

    assert (found.provider_id, found.create.number) == (engine.sim.instances()[0].id, 1)
    assert calls(engine, "list") - listed == 1


@pytest.mark.parametrize("name_filter", ["contains", "prefix", "exact"])
async def test_a_create_that_did_not_happen_is_repeated_after_lookups_of_its_name(
    engine: SteppedEngine, name_filter: str
) -> None:
    """After the settle time, if the same question finds a machine that exists."""
    await all_ready(engine, 1)
    engine.sim.set(name_filter=name_filter)
    engine.sim.fault("error_500", on="create")
    instance_id = await engine.request_create()
    await engine.work()
    await direct_lookups(engine, 5, 11)
    assert (await engine.get(instance_id)).create.number == 1, "not before the settle time"

    await direct_lookups(engine, 5, 30)
    assert (await engine.get(instance_id)).create.number == 2
    assert len(engine.sim.instances(OURS)) == 2


@pytest.mark.parametrize("quirk", [{"name_filter": "nothing"}, {"list_shows": "nothing"}])
async def test_a_filter_that_finds_nothing_proves_nothing(engine: SteppedEngine, quirk: dict[str, str]) -> None:
    """How the filter works is not documented; a machine that is known to exist is the test."""
    await all_ready(engine, 1)
    engine.sim.fault("lost_reply", on="create")
    engine.sim.set(**quirk)
    instance_id = await engine.request_create()
    await engine.work()
    await direct_lookups(engine, 5, 60)

    assert (await engine.get(instance_id)).create_in_doubt
    assert len(engine.sim.instances(OURS)) == 2


async def test_without_a_machine_to_compare_with_a_lookup_proves_nothing(engine: SteppedEngine) -> None:
    """Then the account is small, and a full listing shows it."""
    engine.sim.fault("error_500", on="create")
    instance_id = await engine.request_create()
    await engine.work()
    await direct_lookups(engine, 5, 60)
    assert (await engine.get(instance_id)).create.number == 1

    await engine.ask(OperationKind.DELETE, instance_id)
    await engine.until(instance_id, Phase.TERMINATED)
