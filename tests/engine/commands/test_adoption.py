"""What becomes of an adopted instance: it lives like any other, under a name that is not ours."""

from __future__ import annotations

from support.engines.audit_lines import LINE
from support.engines.stepped_engine import SteppedEngine

from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.adoption import Adoption


async def adopt(engine: SteppedEngine, provider_id: str) -> Instance:
    known, is_new = await engine.parts.adopt.adopt(provider_id, Adoption(), LINE)
    assert is_new
    return known.instance


async def event_names(engine: SteppedEngine, instance_id: InstanceId) -> list[str]:
    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events WHERE instance_id = $1 ORDER BY id", instance_id)
    return [row["type"].removeprefix("instance.") for row in rows]


async def test_a_running_one_becomes_ready_without_another_create(engine: SteppedEngine) -> None:
    """It is inspected and checked like one of ours; the provider is asked for nothing but looks."""
    theirs = await engine.sim.create("foreign-instance")
    engine.sim.advance(10)
    adopted = await adopt(engine, theirs)
    ready = await engine.until(adopted.id, Phase.READY)

    assert ready.access is not None
    assert {endpoint.port for endpoint in ready.endpoints} == {8080, 22}
    assert await event_names(engine, adopted.id) == ["created", "health_checking", "ready"]
    assert engine.sim.calls()["endpoints"]["create"]["total"] == 1
    async with engine.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM corral_ready_times") == 0


async def test_one_that_is_booting_is_followed_up(engine: SteppedEngine) -> None:
    """From wherever it is."""
    adopted = await adopt(engine, await engine.sim.create("foreign-instance"))

    assert adopted.phase is Phase.STARTING
    await engine.until(adopted.id, Phase.READY)


async def test_it_is_deleted_by_the_providers_id(engine: SteppedEngine) -> None:
    """And only it: another of the same name is none of our business."""
    theirs, twin = [await engine.sim.create("foreign-instance") for _ in range(2)]
    adopted = await adopt(engine, theirs)
    await engine.until(adopted.id, Phase.READY)
    await engine.request_delete(adopted.id)
    await engine.until(adopted.id, Phase.TERMINATED)

    assert [machine.id for machine in engine.sim.instances("foreign")] == [twin]


async def test_one_that_comes_back_from_the_dead_is_deleted_again(engine: SteppedEngine) -> None:
    """The provider may hide what it still bills; without our provider name, only its id shows that it was ours."""
    theirs = await engine.sim.create("foreign-instance")
    adopted = await adopt(engine, theirs)
    await engine.until(adopted.id, Phase.READY)
    engine.sim.fault("vanish", name="foreign", seconds=300)
    await engine.request_delete(adopted.id)
    await engine.until(adopted.id, Phase.TERMINATED)
    assert engine.sim.world.instances[theirs].removed_at() > engine.sim.now(), "it is denied, not removed"
    await engine.steps(40, seconds=10)

    assert await engine.phase(adopted.id) is Phase.TERMINATED
    assert engine.sim.instances("foreign") == []
