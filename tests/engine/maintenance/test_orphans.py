"""Provider instances that carry our mark and belong to no record: reported, spared for an hour, then deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.engines.audit_lines import LINE
from support.engines.runtime import settings_of
from support.engines.stepped_engine import SteppedEngine

from corral.domain.errors import GoalRefusedError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.adoption import Adoption
from corral.domain.observation.orphans import GRACE, Orphan
from corral.domain.observation.provider_names import ProviderName, provider_name
from corral.engine.build import build_engine
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.maintenance.orphans import OrphanRule, OrphanSweep
from corral.jobs.registry import JobId, JobRun
from corral.store.tables import orphans

RUN = JobRun(id=JobId(1), type="sweep_orphans", payload={}, attempt=1)
HOUR = GRACE.total_seconds()


def sweeper(engine: SteppedEngine, rule: OrphanRule = "delete") -> OrphanSweep:
    """As a process that has just started would have it."""
    return build_engine(replace(engine.parts.runtime, settings=settings_of(CORRAL_ORPHANS=rule))).orphan_sweep


def adopting(engine: SteppedEngine) -> AdoptInstance:
    return build_engine(engine.parts.runtime).adopt


async def lost(engine: SteppedEngine, instance_id: str = "inst_lost") -> str:
    """A machine of ours without a record, as after a restored backup."""
    origin = ProviderName(installation=engine.installation, instance_id=InstanceId(instance_id), attempt=1)
    return await engine.sim.create(provider_name(origin))


async def known(engine: SteppedEngine) -> list[Orphan]:
    async with engine.database.connection() as connection:
        return await orphans.load_all(connection)


async def test_one_is_reported_with_what_it_costs(engine: SteppedEngine) -> None:
    """From the first listing that shows it; by default nothing more is done, ever."""
    theirs = await lost(engine)
    await engine.step()
    first_seen_at = engine.clock.now()
    await sweeper(engine, "report").sweep(RUN)
    await engine.steps(5, seconds=HOUR)
    await sweeper(engine, "report").sweep(RUN)
    (orphan,) = await known(engine)

    assert (orphan.provider_id, orphan.made_for, orphan.phase) == (theirs, "inst_lost", Phase.RUNNING)
    assert (orphan.region, orphan.first_seen_at, orphan.asked_at) == ("US-CA-06", first_seen_at, None)
    assert orphan.micro_usd is not None
    assert orphan.micro_usd > 0
    assert [machine.id for machine in engine.sim.instances("inst-lost")] == [theirs]


async def test_one_is_deleted_when_its_hour_is_over_across_restarts(engine: SteppedEngine) -> None:
    """The time of the first sighting is stored: no restart restarts the hour, or skips it."""
    await lost(engine)
    await engine.step()
    for _ in range(5):
        await sweeper(engine).sweep(RUN)
        await engine.step(HOUR / 6)
    assert len(engine.sim.instances("inst-lost")) == 1
    await engine.step(HOUR / 6)
    await sweeper(engine).sweep(RUN)
    await engine.steps(3)

    assert engine.sim.instances("inst-lost") == []
    assert await known(engine) == []


async def test_one_that_went_away_by_itself_is_forgotten(engine: SteppedEngine) -> None:
    """By a complete listing without it; should it come back, it has an hour again."""
    theirs = await lost(engine)
    await engine.step()
    assert len(await known(engine)) == 1
    await engine.sim.ask("/gpu/instance/delete", {"instanceId": theirs})
    await engine.steps(3)

    assert await known(engine) == []


async def test_an_adopted_one_is_an_orphan_no_more(engine: SteppedEngine) -> None:
    """That is what the hour is for."""
    theirs = await lost(engine)
    await engine.step()
    instance = (await adopting(engine).adopt(theirs, Adoption(), LINE))[0].instance
    await engine.until(instance.id, Phase.READY)
    await engine.step(2 * HOUR)
    await sweeper(engine).sweep(RUN)
    await engine.steps(3)

    assert await known(engine) == []
    assert await engine.phase(instance.id) is Phase.READY
    assert [machine.id for machine in engine.sim.instances("inst-lost")] == [theirs]


async def test_one_that_is_being_deleted_cannot_be_adopted(engine: SteppedEngine) -> None:
    """From the claim on; a record of something that goes would be a lie."""
    theirs = await lost(engine)
    await engine.step()
    async with engine.database.connection() as connection:
        assert await orphans.claim(connection, (await known(engine))[0].provider_id, engine.clock.now())

    with pytest.raises(GoalRefusedError, match="deleted as an orphan"):
        await adopting(engine).adopt(theirs, Adoption(), LINE)


async def test_one_that_got_a_record_meanwhile_is_not_claimed(engine: SteppedEngine) -> None:
    """An older sweep may still hold it for an orphan."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    ready = await engine.get(instance_id)
    assert ready.provider_id is not None
    await lost(engine)
    await engine.step()
    (orphan,) = await known(engine)
    mistaken = replace(orphan, provider_id=ready.provider_id, made_for=instance_id)
    async with engine.database.connection() as connection:
        await orphans.note(connection, [mistaken], engine.clock.now() - timedelta(hours=2))
    await sweeper(engine).sweep(RUN)
    await engine.steps(3)

    assert await engine.phase(instance_id) is Phase.READY


async def test_a_renamed_one_is_left_alone(engine: SteppedEngine) -> None:
    """The direct lookup must show our provider name too: it may have been renamed at the provider."""
    theirs = await lost(engine)
    await engine.step()
    machine = engine.sim.world.instances[theirs]
    engine.sim.world.put(replace(machine, order=replace(machine.order, name="mine-now")), engine.sim.now())
    engine.clock.advance(2 * HOUR)
    await sweeper(engine).sweep(RUN)

    assert [machine.id for machine in engine.sim.instances("mine-now")] == [theirs]


async def test_other_peoples_machines_are_no_orphans(engine: SteppedEngine) -> None:
    """Neither unmarked ones nor those of another Corral on the same account."""
    await engine.sim.create("foreign-instance")
    await engine.sim.create("corral-ffffff-inst-abc-1")
    await engine.step()
    await engine.step(2 * HOUR)
    await sweeper(engine).sweep(RUN)
    await engine.steps(3)

    assert await known(engine) == []
    assert len(engine.sim.instances()) == 2


async def test_a_provider_in_trouble_spares_them(engine: SteppedEngine) -> None:
    """What cannot be looked at directly is not deleted."""
    await lost(engine)
    await engine.step()
    engine.clock.advance(2 * HOUR)
    engine.sim.fault("error_500", on="get", count=10)
    await sweeper(engine).sweep(RUN)
    assert len(engine.sim.instances("inst-lost")) == 1
    engine.sim.no_more_faults()
    await sweeper(engine).sweep(RUN)
    await engine.steps(3)

    assert engine.sim.instances("inst-lost") == []


async def events_of(engine: SteppedEngine, instance_id: str) -> list[str]:
    async with engine.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT reason FROM corral_events WHERE instance_id = $1 AND type = 'instance.changed' ORDER BY id",
            instance_id,
        )
    return [row["reason"] for row in rows if "belongs to no record" in row["reason"] or "grace" in row["reason"]]


async def second_machine(engine: SteppedEngine, instance_id: InstanceId, attempt: int) -> str:
    origin = ProviderName(installation=engine.installation, instance_id=instance_id, attempt=attempt)
    return await engine.sim.create(provider_name(origin))


async def test_the_late_result_of_a_create_that_was_given_up_is_deleted_after_its_hour(engine: SteppedEngine) -> None:
    """Whatever CORRAL_ORPHANS says, because it is certainly ours; and not before, because this may be a mistake."""
    engine.sim.fault("error_500", on="create")
    instance_id = await engine.request_create()
    kept = await engine.until(instance_id, Phase.READY, steps=120)
    late = await second_machine(engine, instance_id, 1)
    await engine.step()
    (orphan,) = await known(engine)
    await sweeper(engine, "report").sweep(RUN)
    await engine.step(HOUR - 60)
    await sweeper(engine, "report").sweep(RUN)
    assert (kept.create.number, orphan.provider_id, orphan.kind.value) == (2, late, "lost_create")
    assert {machine.id for machine in engine.sim.instances("corral-")} == {late, kept.provider_id}

    await engine.step(60)
    await sweeper(engine, "report").sweep(RUN)
    await engine.steps(3)

    assert [machine.id for machine in engine.sim.instances("corral-")] == [kept.provider_id]
    assert await engine.phase(instance_id) is Phase.READY
    assert await known(engine) == []
    assert [late in reason for reason in await events_of(engine, instance_id)] == [True, True]


@pytest.mark.parametrize(("rule", "left"), [("report", 2), ("delete", 1)])
async def test_a_second_machine_that_no_call_explains_is_left_alone_unless_orphans_are_deleted(
    engine: SteppedEngine, rule: OrphanRule, left: int
) -> None:
    """It may be in use: made by another copy of the database, or forgotten by this one."""
    instance_id = await engine.request_create()
    kept = await engine.until(instance_id, Phase.READY)
    other = await second_machine(engine, instance_id, kept.create.number + 1)
    await engine.step()
    (orphan,) = await known(engine)
    await engine.step(HOUR)
    await sweeper(engine, rule).sweep(RUN)
    await engine.steps(3)

    assert (orphan.provider_id, orphan.kind.value) == (other, "second_machine")
    assert len(engine.sim.instances("corral-")) == left
    assert (await engine.get(instance_id)).provider_id == kept.provider_id
    assert await engine.phase(instance_id) is Phase.READY


async def test_a_second_machine_that_is_reported_can_be_adopted(engine: SteppedEngine) -> None:
    """That is how a person keeps it."""
    instance_id = await engine.request_create()
    kept = await engine.until(instance_id, Phase.READY)
    other = await second_machine(engine, instance_id, kept.create.number + 1)
    await engine.step()
    adopted, is_new = await adopting(engine).adopt(other, Adoption(), LINE)
    await engine.step(HOUR)
    await sweeper(engine).sweep(RUN)
    await engine.steps(3)

    assert is_new
    assert adopted.instance.id != instance_id
    assert {machine.id for machine in engine.sim.instances("corral-")} == {other, kept.provider_id}
    assert await known(engine) == []
