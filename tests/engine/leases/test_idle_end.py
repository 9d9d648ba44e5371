"""An idle instance ends after its notice, and nothing that is busy or unknown does."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from support.engines.leased import (
    BUSY,
    GRACE,
    IDLE,
    MINUTE,
    QUIET,
    lease_events,
    live,
    live_until,
    ready,
    samples,
    set_load,
)
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.leases.due import PATIENCE
from corral.domain.leases.lease import EndAction, EndCause, IdleRule, Lease
from corral.domain.leases.samples import expected_distance, stored_interval
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.store.tables import leases
from novitasim.world.timeline import Status

AFTER = 10 * MINUTE
HOUR = timedelta(hours=1)
STEP = timedelta(seconds=20)
"""Of these tests. The end of the grace is found in one, and the stop that is sent then is seen in the next."""


async def test_an_idle_instance_is_stopped_in_time_after_its_notice(engine: SteppedEngine) -> None:
    """Within the idle time, the grace, one reading and one listing; and never before idle time and grace are over."""
    instance = await ready(engine, IDLE)
    assert instance.ready_at is not None
    stopped_at = await live_until(engine, instance.id, Phase.EXITED, most=30 * MINUTE)
    (notice, reason), (command, because) = await lease_events(engine)

    earliest = instance.ready_at + AFTER + GRACE
    assert earliest <= stopped_at <= earliest + expected_distance(IdleRule(after=AFTER)) + 2 * STEP
    assert (notice, command) == ("ending_soon", "changed")
    assert "GPU 0 %, CPU 2 %" in reason
    assert because.startswith("lease: idle: GPU 0 %, CPU 2 %")
    ended = await engine.get(instance.id)
    assert ended.lease is not None
    assert (ended.lease.ended_by, ended.lease.notice) == (EndCause.IDLE, None)
    assert engine.sim.status(str(ended.provider_id)) is Status.EXITED


async def test_the_end_is_audited_under_the_name_of_the_lease_and_counted(engine: SteppedEngine) -> None:
    """A person who finds the machine gone reads who did it, and why."""
    instance = await ready(engine, replace(IDLE, on_end=EndAction.DELETE))
    await live_until(engine, instance.id, Phase.TERMINATED, most=30 * MINUTE)
    async with engine.database.connection() as connection:
        lines = await connection.fetch("SELECT who, method, route, path, instance_id FROM corral_audit")

    assert [(line["who"], line["route"], line["instance_id"]) for line in lines] == [("lease", "delete", instance.id)]
    assert lines[0]["path"].startswith("lease: idle: GPU 0 %")
    metrics = engine.metrics.registry
    assert metrics.get_sample_value("corral_lease_ends_total", {"cause": "idle", "action": "delete"}) == 1
    assert metrics.get_sample_value("corral_lease_notices_total", {"cause": "idle"}) == 1
    assert (metrics.get_sample_value("corral_idle_reads_total", {"outcome": "ok"}) or 0) > 10


async def test_load_during_the_grace_cancels_the_end(engine: SteppedEngine) -> None:
    """And the next idle time begins when the load ends."""
    instance = await ready(engine, IDLE)
    await live(engine, AFTER + 2 * MINUTE)
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon"]
    set_load(engine, BUSY)
    await live(engine, 2 * MINUTE)
    set_load(engine, QUIET)
    quiet_since = engine.clock.now()
    await live(engine, GRACE + MINUTE)

    assert [name for name, _ in await lease_events(engine)] == ["ending_soon", "ending_cancelled"]
    assert await engine.phase(instance.id) is Phase.READY
    stopped_at = await live_until(engine, instance.id, Phase.EXITED, most=30 * MINUTE)
    assert stopped_at >= quiet_since + AFTER + GRACE


@pytest.mark.parametrize("offset", [0, 15, 30, 45])
async def test_a_short_load_is_not_forgotten_by_the_next_reading(engine: SteppedEngine, offset: int) -> None:
    """Of an interval the highest counts, also when its end is read again."""
    step = timedelta(seconds=15)
    await engine.step(offset)
    instance = await ready(engine, IDLE)
    await live(engine, 3.5 * MINUTE, step=step)
    set_load(engine, BUSY)
    await live(engine, step, step=step)
    set_load(engine, QUIET)
    quiet_since = engine.clock.now()
    ended_at = await live_until(engine, instance.id, Phase.EXITED, most=30 * MINUTE, step=step)

    assert ended_at >= quiet_since - step + AFTER + GRACE


async def test_a_busy_instance_and_one_without_measurements_are_never_ended(engine: SteppedEngine) -> None:
    """Busy GPU, busy CPU, a gap, no measurements at all, and a provider that shows zero for everything."""
    for load in (BUSY, QUIET | {"cpu": 50.0}, dict.fromkeys(QUIET, 0.0)):
        instance = await ready(engine, IDLE, load)
        await live(engine, 2 * (AFTER + GRACE), step=MINUTE)
        assert (await engine.phase(instance.id), await lease_events(engine)) == (Phase.READY, []), load
        await engine.ask(OperationKind.DELETE, instance.id)
        await engine.until(instance.id, Phase.TERMINATED)


async def test_a_provider_that_fails_to_measure_ends_nothing_and_delays_no_reconcile(engine: SteppedEngine) -> None:
    """Measurements have their own errors: a create beside them becomes ready as ever."""
    engine.sim.fault("error_500", on="metrics", count=None)
    instance = await ready(engine, IDLE)
    await live(engine, AFTER + GRACE + MINUTE, step=MINUTE)
    other = await engine.request_create()
    await engine.until(other, Phase.READY, steps=10)

    assert await engine.phase(instance.id) is Phase.READY
    assert (await lease_events(engine), await samples(engine)) == ([], 0)
    assert (engine.metrics.registry.get_sample_value("corral_idle_reads_total", {"outcome": "failed"}) or 0) >= 4


async def test_a_pending_end_waits_when_measurements_stop_and_is_then_cancelled(engine: SteppedEngine) -> None:
    """It may be busy since: what is not known counts as activity."""
    instance = await ready(engine, IDLE)
    await live(engine, AFTER + 2 * MINUTE)
    engine.sim.fault("error_500", on="metrics", count=None)
    await live(engine, GRACE + 5 * MINUTE)
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon"], "that it waits is no event"
    await live(engine, PATIENCE)

    assert [name for name, _ in await lease_events(engine)] == ["ending_soon", "ending_cancelled"]
    assert await engine.phase(instance.id) is Phase.READY


async def test_machines_without_a_record_are_never_touched(engine: SteppedEngine) -> None:
    """Idle or not: Corral does not know what they are for."""
    foreign = await engine.sim.create("not-ours")
    instance = await ready(engine, IDLE)
    await live_until(engine, instance.id, Phase.EXITED, most=30 * MINUTE)
    await live(engine, 30 * MINUTE, step=5 * MINUTE)

    assert engine.sim.status(foreign) is Status.RUNNING


async def test_a_new_leader_continues_with_the_samples_of_the_last(engine: SteppedEngine) -> None:
    """The window is not measured again: the end comes when it would have come."""
    instance = await ready(engine, IDLE)
    assert instance.ready_at is not None
    await live(engine, AFTER - 2 * MINUTE)
    known = await samples(engine)
    async with stepped_engine(engine.database, engine.parts.runtime.target, after=engine) as other:
        await other.parts.sampler.read_due()
        assert known <= await samples(engine) <= known + 2, "only what is new was read"
        stopped_at = await live_until(other, instance.id, Phase.EXITED, most=30 * MINUTE)

    assert stopped_at <= instance.ready_at + AFTER + GRACE + expected_distance(IdleRule(after=AFTER)) + 2 * STEP


@pytest.mark.parametrize("late", [60, 80])
async def test_a_short_idle_time_works_although_the_provider_measures_late(engine: SteppedEngine, late: int) -> None:
    """The window ends with the newest measurement, and the end waits for one that was made after it."""
    engine.sim.set(metrics_late_seconds=late)
    rule = IdleRule(after=2 * MINUTE)
    instance = await ready(engine, Lease(idle=rule, grace=MINUTE))
    assert instance.ready_at is not None
    reads = list[tuple[datetime, int]]()
    while await engine.phase(instance.id) is not Phase.EXITED:
        assert engine.clock.now() < instance.ready_at + 15 * MINUTE
        await live(engine, timedelta(seconds=5), step=timedelta(seconds=5))
        found = await engine.get(instance.id)
        if found.lease is not None and found.lease.notice is not None:
            reads.append((engine.clock.now(), int(engine.sim.calls()["endpoints"]["metrics"]["total"])))
    stopped_at = engine.clock.now()

    (given_at, noticed), (_, ended) = reads[0], reads[-1]
    assert ended - noticed <= 4 + 3 + 3, "each counts: in the grace, in its last half minute, and while the end waits"
    assert given_at < stopped_at
    earliest = instance.ready_at + 3 * MINUTE + timedelta(seconds=late)
    assert earliest <= stopped_at <= earliest + timedelta(seconds=late) + 3 * expected_distance(rule) + STEP
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon", "changed"]


async def test_samples_outside_the_window_and_of_instances_without_a_rule_are_deleted(engine: SteppedEngine) -> None:
    """The table stays small."""
    lease = replace(IDLE, idle=IdleRule(after=2 * MINUTE, gpu_below=100.0, cpu_below=1.0))
    instance = await ready(engine, lease)
    await live(engine, 20 * MINUTE, step=timedelta(seconds=15))
    most = (2 * MINUTE + 3 * MINUTE) / expected_distance(IdleRule(after=2 * MINUTE)) + 2

    assert 0 < await samples(engine) <= most
    await engine.ask(OperationKind.STOP, instance.id)
    await engine.until(instance.id, Phase.EXITED)
    async with engine.database.connection() as connection:
        assert await leases.sweep_samples(connection) > 0
    assert await samples(engine) == 0


async def test_a_rule_over_days_is_judged_by_summaries(engine: SteppedEngine) -> None:
    """Every measurement of thirty days would be 43,000 rows for each judgement; a load in one of them still counts."""
    lease = replace(IDLE, idle=IdleRule(after=timedelta(days=30)))
    instance = await ready(engine, lease)
    await live(engine, 2 * HOUR, step=MINUTE)
    async with engine.database.connection() as connection:
        known = await leases.samples(connection, instance.id)
    interval = stored_interval(IdleRule(after=timedelta(days=30)))
    measured = sum((each.measured for each in known), timedelta(0))

    assert len(known) <= 2 * HOUR / interval + 1
    assert 2 * HOUR - 10 * MINUTE <= measured <= 2 * HOUR + MINUTE
    assert {(each.gpu, each.cpu) for each in known} == {(0.0, 2.0)}
    set_load(engine, BUSY)
    await live(engine, MINUTE)
    set_load(engine, QUIET)
    await live(engine, 10 * MINUTE, step=MINUTE)
    async with engine.database.connection() as connection:
        known = await leases.samples(connection, instance.id)
    assert max(each.gpu or 0.0 for each in known) == 90.0
