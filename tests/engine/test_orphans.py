"""Provider instances that carry our mark and belong to no record: reported, spared for an hour, then deleted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta

import pytest
from support.stepped_engine import Herd, herding

from corral.base.settings import CacheSettings
from corral.cache.registry import CacheRegistry
from corral.domain.errors import GoalRefusedError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.tables import Phase
from corral.domain.observation.adoption import Adoption
from corral.domain.observation.orphans import GRACE, Orphan
from corral.domain.observation.provider_names import ProviderName, provider_name
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.ids import random_id
from corral.engine.maintenance.orphans import OrphanRule, OrphanSweep
from corral.engine.queries.catalog import Catalog
from corral.jobs.registry import JobId, JobRun
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import orphans
from corral.store.tables.offers import FailedOffers

RUN = JobRun(id=JobId(1), type="sweep_orphans", payload={}, attempt=1)
HOUR = GRACE.total_seconds()


@pytest.fixture
async def herd(database: Database, target: DatabaseTarget) -> AsyncGenerator[Herd]:
    async with herding(database, target) as herd:
        yield herd


def a_catalog(herd: Herd, caches: CacheRegistry) -> Catalog:
    offers = FailedOffers(herd.database)
    return Catalog(herd.observer.cloud, caches, offers, herd.clock, default_region="CN-HK-01", regions=())


def sweeper(herd: Herd, rule: OrphanRule = "delete") -> OrphanSweep:
    """As a process that has just started would have it."""
    return OrphanSweep(
        cloud=herd.observer.cloud,
        catalog=a_catalog(herd, CacheRegistry(CacheSettings(), herd.clock)),
        database=herd.database,
        tell=herd.news.tell,
        clock=herd.clock,
        installation=herd.installation,
        rule=rule,
    )


def adopting(herd: Herd) -> AdoptInstance:
    caches = CacheRegistry(CacheSettings(), herd.clock)
    return AdoptInstance(
        cloud=herd.observer.cloud,
        catalog=a_catalog(herd, caches),
        database=herd.database,
        queue=herd.queue,
        tell=herd.news.tell,
        caches=caches,
        clock=herd.clock,
        installation=herd.installation,
        new_id=random_id,
    )


async def lost(herd: Herd, instance_id: str = "inst_lost") -> str:
    """A machine of ours that no record tells of, as after a restored backup."""
    mark = ProviderName(installation=herd.installation, instance_id=InstanceId(instance_id), attempt=1)
    return await herd.sim.create(provider_name(mark))


async def known(herd: Herd) -> list[Orphan]:
    async with herd.database.connection() as connection:
        return await orphans.load_all(connection)


async def test_one_is_reported_with_what_it_costs(herd: Herd) -> None:
    """From the first listing that shows it; by default nothing more is done, ever."""
    theirs = await lost(herd)
    await herd.step()
    first_seen_at = herd.clock.now()
    await sweeper(herd, "report").sweep(RUN)
    await herd.steps(5, seconds=HOUR)
    await sweeper(herd, "report").sweep(RUN)
    (orphan,) = await known(herd)

    assert (orphan.provider_id, orphan.made_for, orphan.phase) == (theirs, "inst_lost", Phase.RUNNING)
    assert (orphan.region, orphan.first_seen_at, orphan.asked_at) == ("US-CA-06", first_seen_at, None)
    assert orphan.micro_usd is not None
    assert orphan.micro_usd > 0
    assert [machine.id for machine in herd.sim.instances("inst-lost")] == [theirs]


async def test_one_is_deleted_when_its_hour_is_over_across_restarts(herd: Herd) -> None:
    """Since when it is known is kept: no restart begins the hour anew, or skips it."""
    await lost(herd)
    await herd.step()
    for _ in range(5):
        await sweeper(herd).sweep(RUN)
        await herd.step(HOUR / 6)
    assert len(herd.sim.instances("inst-lost")) == 1
    await herd.step(HOUR / 6)
    await sweeper(herd).sweep(RUN)
    await herd.steps(3)

    assert herd.sim.instances("inst-lost") == []
    assert await known(herd) == []


async def test_one_that_went_away_by_itself_is_forgotten(herd: Herd) -> None:
    """By a complete listing without it; should it come back, it has an hour again."""
    theirs = await lost(herd)
    await herd.step()
    assert len(await known(herd)) == 1
    await herd.sim.ask("/gpu/instance/delete", {"instanceId": theirs})
    await herd.steps(3)

    assert await known(herd) == []


async def test_an_adopted_one_is_an_orphan_no_more(herd: Herd) -> None:
    """That is what the hour is for."""
    theirs = await lost(herd)
    await herd.step()
    instance = (await adopting(herd).adopt(theirs, Adoption()))[0].instance
    await herd.until(instance.id, Phase.READY)
    await herd.step(2 * HOUR)
    await sweeper(herd).sweep(RUN)
    await herd.steps(3)

    assert await known(herd) == []
    assert await herd.phase(instance.id) is Phase.READY
    assert [machine.id for machine in herd.sim.instances("inst-lost")] == [theirs]


async def test_one_that_is_being_deleted_cannot_be_adopted(herd: Herd) -> None:
    """From the claim on; a record of something that goes would be a lie."""
    theirs = await lost(herd)
    await herd.step()
    async with herd.database.connection() as connection:
        assert await orphans.claim(connection, (await known(herd))[0].provider_id, herd.clock.now())

    with pytest.raises(GoalRefusedError, match="deleted as an orphan"):
        await adopting(herd).adopt(theirs, Adoption())


async def test_one_that_got_a_record_meanwhile_is_not_claimed(herd: Herd) -> None:
    """An older sweep may still hold it for an orphan."""
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)
    ready = await herd.get(wish)
    assert ready.provider_id is not None
    await lost(herd)
    await herd.step()
    (orphan,) = await known(herd)
    mistaken = replace(orphan, provider_id=ready.provider_id, made_for=wish)
    async with herd.database.connection() as connection:
        await orphans.note(connection, [mistaken], herd.clock.now() - timedelta(hours=2))
    await sweeper(herd).sweep(RUN)
    await herd.steps(3)

    assert await herd.phase(wish) is Phase.READY


async def test_a_renamed_one_is_left_alone(herd: Herd) -> None:
    """The direct look must show our mark too: somebody may have taken it over by another name."""
    theirs = await lost(herd)
    await herd.step()
    machine = herd.sim.world.instances[theirs]
    herd.sim.world.put(replace(machine, order=replace(machine.order, name="mine-now")), herd.sim.now())
    herd.clock.advance(2 * HOUR)
    await sweeper(herd).sweep(RUN)

    assert [machine.id for machine in herd.sim.instances("mine-now")] == [theirs]


async def test_other_peoples_machines_are_no_orphans(herd: Herd) -> None:
    """Neither unmarked ones nor those of another Corral on the same account."""
    await herd.sim.create("somebody-elses")
    await herd.sim.create("corral-ffffff-inst-abc-1")
    await herd.step()
    await herd.step(2 * HOUR)
    await sweeper(herd).sweep(RUN)
    await herd.steps(3)

    assert await known(herd) == []
    assert len(herd.sim.instances()) == 2


async def test_a_provider_in_trouble_spares_them(herd: Herd) -> None:
    """What cannot be looked at directly is not deleted."""
    await lost(herd)
    await herd.step()
    herd.clock.advance(2 * HOUR)
    herd.sim.fault("error_500", on="get", count=10)
    await sweeper(herd).sweep(RUN)
    assert len(herd.sim.instances("inst-lost")) == 1
    herd.sim.no_more_faults()
    await sweeper(herd).sweep(RUN)
    await herd.steps(3)

    assert herd.sim.instances("inst-lost") == []


async def events_of(herd: Herd, instance_id: str) -> list[str]:
    async with herd.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT reason FROM corral_events WHERE instance_id = $1 AND type = 'instance.changed' ORDER BY id",
            instance_id,
        )
    return [row["reason"] for row in rows if "belongs to no record" in row["reason"] or "grace" in row["reason"]]


async def second_machine(herd: Herd, wish: InstanceId, attempt: int) -> str:
    mark = ProviderName(installation=herd.installation, instance_id=wish, attempt=attempt)
    return await herd.sim.create(provider_name(mark))


async def test_the_late_result_of_a_create_that_was_given_up_is_deleted_after_its_hour(herd: Herd) -> None:
    """Whatever CORRAL_ORPHANS says, because it is certainly ours; and not before, because this may be a mistake."""
    herd.sim.fault("error_500", on="create")
    wish = await herd.wish()
    kept = await herd.until(wish, Phase.READY, steps=120)
    late = await second_machine(herd, wish, 1)
    await herd.step()
    (orphan,) = await known(herd)
    await sweeper(herd, "report").sweep(RUN)
    await herd.step(HOUR - 60)
    await sweeper(herd, "report").sweep(RUN)
    assert (kept.attempt, orphan.provider_id, orphan.kind.value) == (2, late, "lost_create")
    assert {machine.id for machine in herd.sim.instances("corral-")} == {late, kept.provider_id}

    await herd.step(60)
    await sweeper(herd, "report").sweep(RUN)
    await herd.steps(3)

    assert [machine.id for machine in herd.sim.instances("corral-")] == [kept.provider_id]
    assert await herd.phase(wish) is Phase.READY
    assert await known(herd) == []
    assert [late in reason for reason in await events_of(herd, wish)] == [True, True]


@pytest.mark.parametrize(("rule", "left"), [("report", 2), ("delete", 1)])
async def test_a_second_machine_that_no_call_explains_is_left_alone_unless_orphans_are_deleted(
    herd: Herd, rule: OrphanRule, left: int
) -> None:
    """It may be in use: made by another copy of the database, or forgotten by this one."""
    wish = await herd.wish()
    kept = await herd.until(wish, Phase.READY)
    other = await second_machine(herd, wish, kept.attempt + 1)
    await herd.step()
    (orphan,) = await known(herd)
    await herd.step(HOUR)
    await sweeper(herd, rule).sweep(RUN)
    await herd.steps(3)

    assert (orphan.provider_id, orphan.kind.value) == (other, "second_machine")
    assert len(herd.sim.instances("corral-")) == left
    assert (await herd.get(wish)).provider_id == kept.provider_id
    assert await herd.phase(wish) is Phase.READY


async def test_a_second_machine_that_is_reported_can_be_adopted(herd: Herd) -> None:
    """That is how a person keeps it."""
    wish = await herd.wish()
    kept = await herd.until(wish, Phase.READY)
    other = await second_machine(herd, wish, kept.attempt + 1)
    await herd.step()
    adopted, is_new = await adopting(herd).adopt(other, Adoption())
    await herd.step(HOUR)
    await sweeper(herd).sweep(RUN)
    await herd.steps(3)

    assert is_new
    assert adopted.instance.id != wish
    assert {machine.id for machine in herd.sim.instances("corral-")} == {other, kept.provider_id}
    assert await known(herd) == []
