"""Usage is written with the observations that show it, for every way in which a machine comes and goes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.engines.audit_lines import CONTEXT, LINE
from support.engines.engine_steps import REQUEST
from support.engines.fault_engine import SWEEP
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.costs.provider_times import LISTED_WITHIN
from corral.domain.costs.totals import Cost, CostGrouping, CostScope, GroupBy
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.adoption import Adoption
from corral.domain.operation import OperationKind
from corral.domain.requests.labels import InstanceChange
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables.costs.totals import leading_groups, total_cost
from novitasim.world import commands

LARGE = replace(REQUEST, rootfs_gb=100)
GPU_PRICE = 180_000 * 24
ON_DEMAND_PRICE = 350_000 * 24
"""Micro-USD for a day."""


async def rows(engine: SteppedEngine) -> list[dict[str, Any]]:
    """Every span, with its bounds as seconds since the clock began."""
    begin = engine.clock.now() - timedelta(seconds=engine.clock.monotonic())
    async with engine.database.connection() as connection:
        found = await connection.fetch("SELECT * FROM corral_usage ORDER BY kind DESC, id")
    edges = ("started_earliest", "started_latest", "ended_earliest", "ended_latest")
    return [
        dict(row) | {name: None if row[name] is None else (row[name] - begin).total_seconds() for name in edges}
        for row in found
    ]


async def cost(engine: SteppedEngine, group_by: GroupBy | None = None, **scope: Any) -> dict[str | None, Cost]:
    now, ages = engine.clock.now(), timedelta(days=400)
    async with engine.database.connection() as connection:
        if group_by is None:
            whole = await total_cost(connection, since=now - ages, until=now + ages, now=now, scope=CostScope(**scope))
            return {None: whole}
        found = await leading_groups(
            connection, since=now - ages, until=now + ages, now=now, group_by=group_by, limit=1000
        )
    return {group.key: group.cost for group in found.groups}


async def test_a_life_is_billed_from_pulling_until_stopped_and_its_disk_until_it_is_gone(engine: SteppedEngine) -> None:
    """Each cause is a span; where nothing was observed in between, the bounds of an edge are the observations."""
    instance_id = await engine.request_create(LARGE)
    await engine.until(instance_id, Phase.READY)
    await engine.steps(3, 10)
    await engine.ask(OperationKind.STOP, instance_id)
    await engine.until(instance_id, Phase.EXITED)
    await engine.steps(3, 10)
    await engine.request_delete(instance_id)
    await engine.until(instance_id, Phase.TERMINATED)

    found = await rows(engine)
    gpu = [row for row in found if row["kind"] == "gpu"]
    disk = [row for row in found if row["kind"] == "disk"]
    assert [row["cause"] for row in gpu] == ["booting", "serving", "deleting"]
    assert [row["cause"] for row in disk] == ["booting", "serving", "deleting", "stopped_disk"]
    assert {(row["unit_price"], row["quantity"], row["estimated"]) for row in gpu} == {(GPU_PRICE, 1, False)}
    assert {(row["unit_price"], row["quantity"], row["estimated"]) for row in disk} == {(5000, 40, False)}
    for spans in (gpu, disk):
        assert all(row["ended_earliest"] is not None for row in spans), "a span is open though the machine is gone"
        for earlier, later in itertools.pairwise(spans):
            assert earlier["ended_latest"] == later["started_earliest"] == later["started_latest"]
    (bill,) = engine.sim.ledger().bills
    total = (await cost(engine))[None]
    assert total.low <= bill.usd * 1_000_000 <= total.high
    assert total.high - total.low <= 3 * 2 * (GPU_PRICE + 40 * 5000) / 86400, "wider than three steps of 2 s"


async def test_another_label_begins_another_span_at_one_instant(engine: SteppedEngine, ready: InstanceId) -> None:
    """The cost before the change belongs to the old label, that after it to the new one."""
    await engine.parts.relabel.replace(ready, InstanceChange(labels=(("team", "vision"),)), CONTEXT)
    await engine.steps(2, 10)
    await engine.parts.relabel.replace(ready, InstanceChange(labels=(("team", "speech"),)), CONTEXT)
    await engine.steps(1, 10)

    by_team = await cost(engine, GroupBy(grouping=CostGrouping.LABEL, label="team"))
    assert by_team["vision"].low == by_team["vision"].high == 20 * GPU_PRICE / 86400
    assert by_team["speech"].low == by_team["speech"].high == 10 * GPU_PRICE / 86400
    assert (await cost(engine, label=("team", "vision")))[None] == by_team["vision"]
    assert sum(by_team.values(), Cost()) == (await cost(engine))[None]


async def test_a_listing_that_changes_nothing_confirms_usage_and_writes_no_row(
    engine: SteppedEngine, ready: InstanceId
) -> None:
    """The lower bound follows the listings, at the cost of one value for the whole account."""
    async with engine.database.connection() as connection:
        versions = "SELECT array_agg(xmin::text || ctid::text) FROM corral_usage"
        before = await connection.fetchval(versions)
        low = (await cost(engine, instance_id=ready))[None].low
        await engine.steps(3, 10)
        assert await connection.fetchval(versions) == before
    assert (await cost(engine, instance_id=ready))[None].low - low == 30 * GPU_PRICE / 86400


async def test_a_listing_that_is_not_complete_confirms_what_it_shows(engine: SteppedEngine, ready: InstanceId) -> None:
    """A large account may never be listed as a whole; each row is then written once a minute at most."""
    await engine.step(10)
    low = (await cost(engine, instance_id=ready))[None].low
    listing = replace(await engine.cloud.instances(), complete=False)
    for seconds in (30, 31):
        engine.clock.advance(seconds)
        engine.sim.advance(seconds)
        await engine.observer.observations.record(listing, began=engine.clock.now())
        low_now = (await cost(engine, instance_id=ready))[None].low
        assert low_now - low == (0 if seconds == 30 else 61 * GPU_PRICE / 86400)


@pytest.mark.usefixtures("ready")
async def test_an_unobserved_machine_may_have_stopped(engine: SteppedEngine) -> None:
    """Without a listing only the upper bound grows."""
    await engine.step(10)
    before = (await cost(engine))[None]
    engine.clock.advance(3600)
    engine.sim.advance(3600)
    after = (await cost(engine))[None]
    assert after.low == before.low
    assert after.high - before.high == 3600 * GPU_PRICE / 86400


async def test_an_orphan_is_billed_until_it_is_adopted_or_gone(engine: SteppedEngine, ready: InstanceId) -> None:
    """Its usage belongs to the instance that its name gives; its price is read by the next sweep."""
    async with engine.database.transaction() as connection:
        await connection.execute("DELETE FROM corral_operations; DELETE FROM corral_instances")
        await connection.execute("DELETE FROM corral_usage")
    await engine.steps(2, 10)
    await engine.parts.orphan_sweep.sweep(SWEEP)
    (row,) = await rows(engine)
    assert (row["cause"], row["instance_id"], row["unit_price"], row["estimated"]) == (
        "orphan",
        ready,
        GPU_PRICE,
        True,
    )
    await engine.step(10)

    known, _ = await engine.parts.adopt.adopt(row["provider_id"], Adoption(), LINE)

    orphan, adopted = await rows(engine)
    assert orphan["ended_latest"] == adopted["started_earliest"] == adopted["started_latest"]
    assert (orphan["cause"], adopted["instance_id"]) == ("orphan", known.instance.id)
    assert adopted["estimated"], "the price that was agreed is not known"


async def test_an_orphan_that_runs_again_is_not_counted_twice(engine: SteppedEngine, ready: InstanceId) -> None:
    """Its next span begins after the last, though the provider gives the time of its creation."""
    async with engine.database.transaction() as connection:
        await connection.execute("DELETE FROM corral_operations; DELETE FROM corral_instances")
        await connection.execute("DELETE FROM corral_usage")
    (machine,) = engine.sim.instances(ready.replace("_", "-"))
    await engine.steps(2, 10)
    for command in (commands.stop, commands.start):
        command(engine.sim.world, engine.sim.world.instances[machine.id], engine.sim.now())
        await engine.steps(2, 30)

    first, second = await rows(engine)
    assert first["ended_latest"] <= second["started_earliest"] <= second["started_latest"]


@pytest.mark.parametrize(("others", "pause"), [(0, 10), (6, 280)])
async def test_a_machine_that_the_provider_moved_is_not_billed_from_when_the_one_before_came_up(
    database: Database, target: DatabaseTarget, others: int, pause: int
) -> None:
    """
    A listing showed only the one before; without that, a move would double what a budget takes for spent.

    Among few *others*, a listing without a machine is not trusted.
    """
    async with stepped_engine(database, target, migrate_keeps_id=False) as engine:
        for _ in range(others):
            await engine.until(await engine.request_create(), Phase.READY)
        moved = await engine.request_create()
        await engine.until(moved, Phase.READY)
        await engine.steps(60, 60)
        old = (await engine.get(moved)).provider_id
        commands.migrate(engine.sim.world, engine.sim.world.instances[str(old)], engine.sim.now())
        await engine.steps(10, pause)

        assert (await engine.get(moved)).provider_id != old
        total = (await cost(engine, instance_id=moved))[None]
        bills = [each.usd for each in engine.sim.ledger().bills if moved.replace("_", "-") in each.name]
        assert total.low <= sum(bills) * 1_000_000 <= total.high
        seconds = LISTED_WITHIN.total_seconds() + 4 * pause
        assert total.high - total.low <= seconds * GPU_PRICE / 86400


async def test_a_second_machine_that_becomes_that_of_its_instance_is_counted_once(
    engine: SteppedEngine, ready: InstanceId
) -> None:
    """Its usage as a duplicate covers the time before."""
    await engine.steps(60, 60)
    (machine,) = engine.sim.instances(ready.replace("_", "-"))
    second = await engine.sim.create(machine.order.name)
    await engine.steps(60, 60)
    commands.delete(engine.sim.world, engine.sim.world.instances[machine.id], engine.sim.now())
    await engine.steps(10, 10)

    assert (await engine.get(ready)).provider_id == second
    spans = [row for row in await rows(engine) if row["provider_id"] == second]
    assert [row["cause"] for row in spans][:2] == ["duplicate", "serving"]
    for earlier, later in itertools.pairwise(spans):
        assert earlier["ended_latest"] == later["started_earliest"]


async def test_usage_without_a_price_gets_the_present_one(engine: SteppedEngine, ready: InstanceId) -> None:
    """The price on demand: which was agreed is not known, so it stays an estimate."""
    async with engine.database.transaction() as connection:
        await connection.execute("UPDATE corral_usage SET unit_price = 0, estimated = true")
    job_type = engine.parts.registry.get("price_usage")
    assert job_type is not None
    await job_type.handler(replace(SWEEP, type="price_usage"))

    assert {(row["unit_price"], row["estimated"]) for row in await rows(engine)} == {(ON_DEMAND_PRICE, True)}
    assert (await cost(engine, instance_id=ready))[None].is_estimated


@pytest.mark.usefixtures("ready")
async def test_old_times_of_an_orphan_do_not_raise_what_it_certainly_cost(engine: SteppedEngine) -> None:
    """A budget would stop machines for what the provider never billed."""
    async with engine.database.transaction() as connection:
        await connection.execute("DELETE FROM corral_operations; DELETE FROM corral_instances")
        await connection.execute("DELETE FROM corral_usage")
        await connection.execute("UPDATE corral_migrations SET applied_at = $1", engine.clock.now())
        first_event_at = await connection.fetchval("SELECT min(at) FROM corral_events")
    long_ago = engine.clock.now() - timedelta(days=3640)
    listing = await engine.cloud.instances()
    aged = tuple(replace(seen, created_at=long_ago, started_at=long_ago) for seen in listing.instances)
    first_listed = engine.clock.monotonic()
    for _ in range(2):
        await engine.observer.observations.record(replace(listing, instances=aged), began=engine.clock.now())
        engine.clock.advance(10)

    (row,) = await rows(engine)
    assert (row["cause"], row["started_latest"]) == ("orphan", first_listed)
    begin = engine.clock.now() - timedelta(seconds=engine.clock.monotonic())
    assert begin + timedelta(seconds=row["started_earliest"]) == first_event_at


async def test_usage_outlives_its_instance(engine: SteppedEngine, ready: InstanceId) -> None:
    """Budgets and the history need it after the record was deleted."""
    await engine.request_delete(ready)
    await engine.until(ready, Phase.TERMINATED)
    before = await cost(engine, GroupBy(grouping=CostGrouping.INSTANCE))
    async with engine.database.transaction() as connection:
        await connection.execute("DELETE FROM corral_operations; DELETE FROM corral_instances")
    assert await cost(engine, GroupBy(grouping=CostGrouping.INSTANCE)) == before != {}


@pytest.mark.usefixtures("ready")
async def test_a_period_is_the_sum_of_its_days(engine: SteppedEngine) -> None:
    """Spans are cut at midnight UTC."""
    await engine.step(3 * 86400)
    by_day = await cost(engine, GroupBy(grouping=CostGrouping.DAY))
    assert list(by_day) == ["2030-01-01", "2030-01-02", "2030-01-03", "2030-01-04"]
    assert by_day["2030-01-02"].high == GPU_PRICE
    assert sum(by_day.values(), Cost()) == (await cost(engine))[None]
