"""The maximum duration and the schedule end an instance on time, after an outage on return, and always with notice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from support.engines.audit_lines import CONTEXT
from support.engines.leased import GRACE, MINUTE, lease_events, live, live_until, ready
from support.engines.stepped_engine import SteppedEngine

from corral.domain.errors import StaleError
from corral.domain.events import Change
from corral.domain.instance import Instance, InstanceId
from corral.domain.leases.changes import Extension, extended
from corral.domain.leases.decide import LATE
from corral.domain.leases.lease import EndAction, EndCause, Lease, Schedule
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.engine.commands.context import LeaseOrder
from corral.store.session.database import Connection
from corral.store.tables import instances, leases
from novitasim.world.timeline import Status

HOUR = timedelta(hours=1)
TEN_YEARS = timedelta(days=3650)
TTL = Lease(max_duration=HOUR, grace=GRACE)
SLACK = timedelta(seconds=60)
"""Three steps of these tests: the end is due, the stop is sent, and its effect is seen."""


async def noticed(engine: SteppedEngine, instance_id: InstanceId) -> Instance:
    found = await engine.get(instance_id)
    assert found.lease is not None
    assert found.lease.notice is not None, "no notice was given"
    return found


@pytest.mark.parametrize("action", EndAction)
async def test_the_maximum_duration_ends_it_after_a_notice(engine: SteppedEngine, action: EndAction) -> None:
    """Counted from ready; the notice comes a grace before."""
    instance = await ready(engine, replace(TTL, on_end=action))
    assert instance.ready_at is not None
    await live(engine, HOUR - GRACE - 2 * MINUTE, step=MINUTE)
    assert await lease_events(engine) == []
    await live(engine, 3 * MINUTE, step=MINUTE)
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon"]
    end = Phase.EXITED if action is EndAction.STOP else Phase.TERMINATED
    ended_at = await live_until(engine, instance.id, end, most=HOUR)

    assert instance.ready_at + HOUR <= ended_at <= instance.ready_at + HOUR + SLACK


async def test_a_time_that_passed_while_the_service_was_down_is_applied_on_return_with_its_grace(
    engine: SteppedEngine,
) -> None:
    """Nothing ends without notice, also if it is late."""
    instance = await ready(engine, TTL)
    engine.clock.advance(5 * HOUR.total_seconds())
    engine.sim.advance(5 * HOUR.total_seconds())
    back_at = engine.clock.now()
    ended_at = await live_until(engine, instance.id, Phase.EXITED, most=HOUR)

    assert back_at + GRACE <= ended_at <= back_at + GRACE + SLACK
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon", "changed"]


async def test_a_time_that_passed_while_the_provider_was_down_is_applied_on_return(engine: SteppedEngine) -> None:
    """The notice needs no provider; the stop is repeated until it is carried out."""
    instance = await ready(engine, TTL)
    await live(engine, HOUR - GRACE - 2 * MINUTE, step=MINUTE)
    engine.sim.fault("error_500", count=None)
    await live(engine, HOUR, step=MINUTE)
    assert await engine.phase(instance.id) is Phase.STOPPING
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon", "changed"]
    engine.sim.no_more_faults()
    await live_until(engine, instance.id, Phase.EXITED, most=10 * MINUTE)


async def test_a_user_who_stops_or_deletes_it_comes_first(engine: SteppedEngine) -> None:
    """The lease does nothing more; a start by the user begins a new duration, and by the schedule none comes."""
    instance = await ready(engine, replace(TTL, schedule=Schedule(start="* * * * *")))
    await live(engine, HOUR - GRACE + MINUTE, step=MINUTE)
    await noticed(engine, instance.id)
    await engine.ask(OperationKind.STOP, instance.id)
    await live(engine, HOUR, step=10 * MINUTE)
    stopped = await engine.get(instance.id)
    assert stopped.phase is Phase.EXITED
    assert stopped.lease is not None
    assert (stopped.lease.notice, stopped.lease.ended_by) == (None, None)

    await engine.ask(OperationKind.START, instance.id)
    again = await engine.until(instance.id, Phase.READY)
    assert again.ready_at is not None
    ended_at = await live_until(engine, instance.id, Phase.EXITED, most=2 * HOUR)
    assert ended_at >= again.ready_at + HOUR
    await engine.ask(OperationKind.DELETE, instance.id)
    await live(engine, HOUR, step=10 * MINUTE)
    assert await engine.phase(instance.id) is Phase.TERMINATED
    names = [name for name, _ in await lease_events(engine)]
    assert names == ["ending_soon", "ending_soon", "changed"]


async def test_an_instance_that_failed_while_its_machine_runs_ends_too(engine: SteppedEngine) -> None:
    """It is billed like any other."""
    instance = await ready(engine, TTL)
    engine.sim.set(guest="refused")
    await engine.ask(OperationKind.RESTART, instance.id)
    await engine.until(instance.id, Phase.FAILED, seconds=10)
    assert instance.ready_at is not None
    ended_at = await live_until(engine, instance.id, Phase.EXITED, most=2 * HOUR, step=MINUTE)

    assert instance.ready_at + HOUR <= ended_at <= instance.ready_at + HOUR + 3 * MINUTE


async def test_it_ends_although_it_cannot_be_looked_up(engine: SteppedEngine) -> None:
    """A failed instance is inspected again and again; an error of that call does not put off its end."""
    instance = await ready(engine, TTL)
    engine.sim.fault("error_500", on="get", count=None)
    await engine.ask(OperationKind.RESTART, instance.id)
    await engine.until(instance.id, Phase.FAILED, seconds=20)
    assert instance.ready_at is not None
    ended_at = await live_until(engine, instance.id, Phase.EXITED, most=2 * HOUR, step=MINUTE)

    assert instance.ready_at + HOUR <= ended_at <= instance.ready_at + HOUR + 3 * MINUTE
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon", "changed"]


async def test_it_ends_although_it_is_neither_listed_nor_found(engine: SteppedEngine) -> None:
    """The list is empty by mistake and lookups fail, but the provider would stop it: the stop is sent."""
    instance = await ready(engine, TTL)
    engine.sim.set(list_shows="nothing")
    engine.sim.fault("error_500", on="get", count=None)
    await live(engine, HOUR + 3 * MINUTE, step=MINUTE)

    assert engine.sim.status(str(instance.provider_id)) is Status.EXITED
    assert engine.sim.calls()["endpoints"]["stop"]["total"] == 1


async def test_a_schedule_stops_and_starts(engine: SteppedEngine) -> None:
    """With a notice before the stop, which never deletes, whatever the end of the lease would do."""
    lease = Lease(schedule=Schedule(stop="30 0 * * *", start="0 1 * * *"), on_end=EndAction.DELETE, grace=GRACE)
    instance = await ready(engine, lease)
    midnight = engine.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    stopped_at = await live_until(engine, instance.id, Phase.EXITED, most=HOUR)
    started_at = await live_until(engine, instance.id, Phase.READY, most=HOUR)

    assert midnight + HOUR / 2 <= stopped_at <= midnight + HOUR / 2 + SLACK
    assert midnight + HOUR <= started_at <= midnight + HOUR + MINUTE
    reported = await lease_events(engine)
    assert [name for name, _ in reported] == ["ending_soon", "changed", "startup_initiated", "changed"]
    assert {because for _, because in reported[2:]} == {"lease: schedule 0 1 * * * UTC"}


async def test_a_lease_for_which_no_reconcile_is_planned_is_found(engine: SteppedEngine) -> None:
    """As a process of an earlier release leaves it, which knows no leases."""
    instance = await ready(engine, TTL)
    async with engine.database.connection() as connection:
        await connection.execute("UPDATE corral_instances SET look_at = NULL")
        assert await wake_unplanned(engine, connection) == 1
        await engine.work()
        assert await wake_unplanned(engine, connection) == 0, "the reconcile planned the next"
    await live_until(engine, instance.id, Phase.EXITED, most=2 * HOUR, step=MINUTE)


@pytest.mark.parametrize("lease", [TTL, Lease(schedule=Schedule(stop="0 1 * * *"), grace=GRACE)])
async def test_a_clock_that_was_ahead_for_a_moment_does_not_delay_the_end(engine: SteppedEngine, lease: Lease) -> None:
    """Its notice was for a time of that clock, ten years away, and so was the next reconcile."""
    instance = await ready(engine, lease)
    engine.clock.advance(TEN_YEARS.total_seconds())
    await engine.observer.sweep()
    await engine.work()
    assert (await noticed(engine, instance.id)).phase is Phase.READY
    engine.clock.advance(-TEN_YEARS.total_seconds())
    async with engine.database.connection() as connection:
        assert await wake_unplanned(engine, connection) == 1
        assert await wake_unplanned(engine, connection) == 0
    ended_at = await live_until(engine, instance.id, Phase.EXITED, most=2 * HOUR, step=MINUTE)

    assert instance.ready_at is not None
    assert ended_at <= instance.ready_at + HOUR + 3 * MINUTE
    names = [name for name, _ in await lease_events(engine)]
    assert names == ["ending_soon", "ending_cancelled", "ending_soon", "changed"]


async def test_what_a_user_stops_again_is_not_started_by_the_schedule(engine: SteppedEngine) -> None:
    """The schedule stopped it first; the user's stop changes nothing else."""
    instance = await ready(engine, Lease(schedule=Schedule(stop="30 0 * * *", start="0 1 * * *"), grace=GRACE))
    await live_until(engine, instance.id, Phase.EXITED, most=HOUR)
    await engine.ask(OperationKind.STOP, instance.id)
    await live(engine, 2 * HOUR, step=10 * MINUTE)

    assert await engine.phase(instance.id) is Phase.EXITED


async def test_an_extension_makes_the_judgement_before_it_stale(engine: SteppedEngine) -> None:
    """The lease ends only the generation that it judged; what it finds then is judged again."""
    instance = await ready(engine, TTL)
    await live(engine, HOUR - GRACE + MINUTE, step=MINUTE)
    judged = await noticed(engine, instance.id)
    assert await extend(engine, instance.id, 3 * HOUR)
    order = LeaseOrder(generation=judged.generation, cause=EndCause.MAX_DURATION, reason="lease: too late")
    with pytest.raises(StaleError):
        await engine.changes.record(OperationKind.STOP, instance.id, CommandOptions(), replace(CONTEXT, lease=order))
    await live(engine, HOUR, step=10 * MINUTE)

    assert await engine.phase(instance.id) is Phase.READY
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon", "lease_changed", "ending_cancelled"]


async def test_of_an_extension_and_an_end_at_the_same_time_one_wins(engine: SteppedEngine) -> None:
    """Each instance is either extended and runs, or stopped and was not extended: never both."""
    fleet = [await engine.request_create(lease=TTL) for _ in range(6)]
    for each in fleet:
        await engine.until(each, Phase.READY)
    await live(engine, HOUR - MINUTE, step=MINUTE)
    engine.clock.advance(2 * MINUTE.total_seconds())
    await engine.observer.sweep()
    _, *won = await asyncio.gather(engine.work(), *(extend(engine, each, HOUR) for each in fleet))
    phases = [await engine.phase(each) for each in fleet]

    assert phases == [Phase.READY if is_extended else Phase.STOPPING for is_extended in won]


async def wake_unplanned(engine: SteppedEngine, connection: Connection) -> int:
    now = engine.clock.now()
    return await leases.wake_unplanned(connection, now, latest=now + LATE)


async def extend(engine: SteppedEngine, instance_id: InstanceId, by: timedelta) -> bool:
    """What the command that extends a lease writes; False if the instance does not run any more."""
    async with engine.database.transaction() as connection:
        before = await instances.load_for_update(connection, instance_id)
        assert before is not None
        if before.phase is not Phase.READY:
            return False
        now = engine.clock.now()
        after = replace(before, lease=extended(before, Extension(by=by), now, None))
        change = Change(before=before, after=after, because="its lease was extended", at=now)
        return await engine.event_publisher.write(connection, [leases.change(after, wake_at=now)], [change])
