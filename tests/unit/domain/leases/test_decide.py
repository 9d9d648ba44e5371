"""What follows from a lease, case by case."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.histories.leased import HOUR, MINUTE, SECOND, T0, every, leased, measured

from corral.domain.instance import Instance
from corral.domain.leases.changes import after_command
from corral.domain.leases.decide import LeaseDecision, judge, needs_samples
from corral.domain.leases.lease import EndAction, EndCause, IdleRule, Lease, Notice, Schedule, Signal
from corral.domain.leases.outlook import expected_end
from corral.domain.leases.samples import IdleSample
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import OperationKind
from corral.domain.records import replace

HALF_HOUR = Lease(max_duration=30 * MINUTE)
NIGHTLY = Lease(schedule=Schedule(stop="0 20 * * *", start="0 8 * * *"))
EIGHT_PM = T0 + 8 * HOUR


def recorded(instance: Instance, decision: LeaseDecision) -> Instance:
    return replace(instance, lease=decision.state)


def notice(instance: Instance, now: datetime, samples: list[IdleSample] | None = None) -> Notice | None:
    decision = judge(instance, samples or [], now)
    assert decision.state is not None
    return decision.state.notice


def test_without_a_lease_nothing_follows() -> None:
    assert judge(leased(None), [], T0 + 9999 * HOUR) == LeaseDecision(state=None)


def test_the_maximum_duration_is_announced_and_then_ends_it() -> None:
    instance = leased(HALF_HOUR)
    before = judge(instance, [], T0 + 20 * MINUTE - SECOND)
    assert before.state is instance.lease
    assert before.wake_at == T0 + 20 * MINUTE

    given = judge(instance, [], T0 + 20 * MINUTE)
    assert given.state is not None
    assert given.state.notice == Notice(
        cause=EndCause.MAX_DURATION,
        reason="maximum duration of 30 min",
        given_at=T0 + 20 * MINUTE,
        ends_at=T0 + 30 * MINUTE,
    )
    instance = recorded(instance, given)
    assert judge(instance, [], T0 + 30 * MINUTE - SECOND) == LeaseDecision(
        state=instance.lease, wake_at=T0 + 30 * MINUTE
    )

    due = judge(instance, [], T0 + 30 * MINUTE)
    assert (due.command, due.cause) == (OperationKind.STOP, EndCause.MAX_DURATION)
    assert due.because == "maximum duration of 30 min"


def test_an_end_that_fell_due_in_an_outage_is_announced_on_return() -> None:
    late = notice(leased(HALF_HOUR), T0 + 5 * HOUR)

    assert late is not None
    assert late.ends_at == T0 + 5 * HOUR + 10 * MINUTE


@pytest.mark.parametrize(("late", "is_ended"), [(2 * MINUTE, True), (2 * MINUTE + SECOND, False)])
def test_a_notice_whose_time_is_long_past_is_given_again(late: timedelta, *, is_ended: bool) -> None:
    """Corral was down, or the database is an old one: no user could extend it."""
    instance = leased(HALF_HOUR)
    instance = recorded(instance, judge(instance, [], T0 + 20 * MINUTE))
    now = T0 + 30 * MINUTE + late

    decision = judge(instance, [], now)

    assert (decision.command is not None) == is_ended
    if not is_ended:
        again = notice(instance, now)
        assert again is not None
        assert (again.given_at, again.ends_at) == (now, now + 10 * MINUTE)
        assert decision.wake_at == again.ends_at
        assert decision.because == "maximum duration of 30 min"


def test_a_long_grace_does_not_lengthen_the_maximum_duration() -> None:
    instance = leased(replace(HALF_HOUR, grace=24 * HOUR))

    given = notice(instance, T0)

    assert given is not None
    assert given.ends_at == T0 + 30 * MINUTE


def test_a_long_grace_does_not_keep_a_schedule_from_stopping() -> None:
    """The notice comes at most an hour before, so that the next start does not undo the stop."""
    instance = leased(replace(NIGHTLY, grace=24 * HOUR))
    assert notice(instance, EIGHT_PM - HOUR - SECOND) is None
    instance = recorded(instance, judge(instance, [], EIGHT_PM - HOUR))

    assert judge(instance, [], EIGHT_PM).command is OperationKind.STOP


@pytest.mark.parametrize(
    ("fields", "counts_from"),
    [
        ({"phase": Phase.FAILED}, T0),
        ({"phase": Phase.FAILED, "ready_at": None}, T0 - MINUTE),
        ({"phase": Phase.RESTARTING}, T0),
        ({"phase": Phase.MIGRATING}, T0),
        ({"phase": Phase.STARTING, "ready_at": None}, None),
        ({"phase": Phase.CREATING, "ready_at": None, "provider_id": None}, None),
        ({"phase": Phase.FAILED, "ready_at": None, "provider_id": None}, None),
        ({"phase": Phase.STOPPING, "goal": Goal.STOPPED}, None),
        ({"phase": Phase.EXITED}, None),
        ({"phase": Phase.DELETING, "goal": Goal.GONE}, None),
    ],
)
def test_the_maximum_duration_applies_to_what_is_billed(fields: dict[str, Any], counts_from: datetime | None) -> None:
    decision = judge(leased(HALF_HOUR, **fields), [], T0)

    assert decision.wake_at == (None if counts_from is None else counts_from + 20 * MINUTE)


@pytest.mark.parametrize("sighting", [Sighting.EXITED, Sighting.ABSENT])
def test_a_failed_instance_without_a_machine_has_no_end(sighting: Sighting) -> None:
    instance = leased(HALF_HOUR, phase=Phase.FAILED)
    down = replace(instance, observation=replace(instance.observation, sighting=sighting))

    assert judge(down, [], T0 + 9 * HOUR) == LeaseDecision(state=down.lease)


def test_idle_and_schedule_apply_to_ready_instances_only() -> None:
    lease = Lease(idle=IdleRule(after=5 * MINUTE), schedule=NIGHTLY.schedule)
    samples = measured(every(15 * SECOND, T0, EIGHT_PM))

    for phase in (Phase.RESTARTING, Phase.FAILED, Phase.MIGRATING, Phase.HEALTH_CHECKING):
        assert judge(leased(lease, phase=phase), samples, EIGHT_PM).wake_at is None
        assert not needs_samples(leased(lease, phase=phase))
    assert notice(leased(lease), EIGHT_PM, samples) is not None
    assert needs_samples(leased(lease))
    assert not needs_samples(leased(Lease(idle=IdleRule(after=MINUTE, signals=frozenset({Signal.LAST_USED})))))


def test_activity_cancels_an_idle_notice_at_once_and_without_a_measurement_its_end_waits() -> None:
    now = T0 + 5 * MINUTE
    samples = measured(every(15 * SECOND, T0, now))
    instance = leased(Lease(idle=IdleRule(after=5 * MINUTE), on_end=EndAction.DELETE))
    instance = recorded(instance, judge(instance, samples, now))
    given = None if instance.lease is None else instance.lease.notice
    assert given is not None
    assert given.ends_at == now + 10 * MINUTE

    busy = judge(instance, [*samples, IdleSample(at=now + 15 * SECOND, gpu=60.0, cpu=1.0)], now + 15 * SECOND)
    assert busy.state is not None
    assert (busy.state.notice, busy.because) == (None, "GPU 60 %")

    unknown = IdleSample(at=now + 15 * SECOND, gpu=None, cpu=1.0)
    assert notice(instance, now + 15 * SECOND, [*samples, unknown]) == given
    silent = judge(instance, samples, given.ends_at)
    assert silent.state is not None
    assert silent.state.notice == replace(given, awaited_since=given.ends_at)
    assert silent.command is None

    due = judge(instance, measured(every(15 * SECOND, T0, given.ends_at)), given.ends_at)
    assert (due.command, due.because) == (OperationKind.DELETE, "idle: GPU 0 %, CPU 2 % for 5 min")


def test_an_extension_delays_every_cause() -> None:
    until = EIGHT_PM + 2 * HOUR
    lease = Lease(max_duration=HOUR, idle=IdleRule(after=5 * MINUTE), schedule=NIGHTLY.schedule)
    instance = leased(lease)
    instance = replace(instance, lease=instance.lease and replace(instance.lease, extended_until=until))

    for now in (T0 + HOUR, EIGHT_PM, until - 10 * MINUTE - SECOND):
        samples = measured(every(15 * SECOND, now - 10 * MINUTE, now))
        assert notice(instance, now, samples) is None
        assert judge(instance, samples, now).wake_at == until - 10 * MINUTE
    given = notice(instance, until - 10 * MINUTE)
    assert given is not None
    assert (given.cause, given.ends_at) == (EndCause.MAX_DURATION, until)
    assert given.reason == "maximum duration of 1 h, extended until 2026-11-16 22:00 UTC"
    end = expected_end(instance, T0 + HOUR)
    assert end is not None
    assert end.reason == given.reason


def test_at_the_same_time_the_maximum_duration_wins_then_the_schedule() -> None:
    now = EIGHT_PM - 10 * MINUTE
    samples = measured(every(15 * SECOND, now - 10 * MINUTE, now))
    idle = IdleRule(after=5 * MINUTE)
    for lease, cause in (
        (Lease(max_duration=8 * HOUR, idle=idle, schedule=NIGHTLY.schedule), EndCause.MAX_DURATION),
        (Lease(idle=idle, schedule=NIGHTLY.schedule), EndCause.SCHEDULE),
        (Lease(max_duration=8 * HOUR + SECOND, idle=idle), EndCause.IDLE),
    ):
        given = notice(leased(lease), now, samples)
        assert given is not None
        assert (given.cause, given.ends_at) == (cause, EIGHT_PM)


def test_a_schedule_stops_whatever_the_end_of_the_lease_is() -> None:
    lease = Lease(schedule=NIGHTLY.schedule, on_end=EndAction.DELETE)
    instance = leased(lease)
    instance = recorded(instance, judge(instance, [], EIGHT_PM - 10 * MINUTE))

    due = judge(instance, [], EIGHT_PM)

    assert (due.command, due.because) == (OperationKind.STOP, "schedule 0 20 * * * UTC")


def test_a_missed_stop_is_applied_unless_a_start_undoes_it() -> None:
    late = notice(leased(NIGHTLY), EIGHT_PM + 3 * HOUR)
    assert late is not None
    assert late.ends_at == EIGHT_PM + 3 * HOUR + 10 * MINUTE

    morning = judge(leased(NIGHTLY), [], EIGHT_PM + 13 * HOUR)
    assert morning.wake_at == EIGHT_PM + 24 * HOUR - 10 * MINUTE


def test_a_notice_of_a_missed_stop_is_given_again_although_the_next_stop_came_since() -> None:
    """It is not cancelled for a moment, which would be a false event."""
    instance = leased(Lease(schedule=Schedule(stop="0 20 * * *")))
    instance = recorded(instance, judge(instance, [], EIGHT_PM - 10 * MINUTE))

    again = notice(instance, EIGHT_PM + 25 * HOUR)

    assert again is not None
    assert again.ends_at == EIGHT_PM + 25 * HOUR + 10 * MINUTE


def test_a_start_in_the_grace_period_of_a_late_stop_cancels_it() -> None:
    start = EIGHT_PM + 12 * HOUR
    instance = leased(NIGHTLY)
    instance = recorded(instance, judge(instance, [], start - 5 * MINUTE))

    cancelled = judge(instance, [], start)

    assert cancelled.state is not None
    assert (cancelled.state.notice, cancelled.command) == (None, None)


@pytest.mark.parametrize(
    ("cause", "now", "is_started"),
    [
        (EndCause.SCHEDULE, EIGHT_PM + 12 * HOUR, True),
        (EndCause.IDLE, EIGHT_PM + 12 * HOUR, True),
        (EndCause.SCHEDULE, EIGHT_PM + 12 * HOUR - SECOND, False),
        (EndCause.SCHEDULE, EIGHT_PM + 20 * HOUR, True),
        (EndCause.SCHEDULE, EIGHT_PM + 24 * HOUR, False),
        (EndCause.SCHEDULE, EIGHT_PM + 36 * HOUR, True),
        (EndCause.MAX_DURATION, EIGHT_PM + 12 * HOUR, False),
        (None, EIGHT_PM + 12 * HOUR, False),
    ],
)
def test_only_what_the_schedule_or_idleness_stopped_is_started_again(
    cause: EndCause | None, now: datetime, *, is_started: bool
) -> None:
    """Also when the time was missed, unless a stop came since."""
    instance = leased(NIGHTLY, phase=Phase.EXITED, goal=Goal.STOPPED)
    assert instance.lease is not None
    stopped = replace(instance, lease=after_command(instance.lease, OperationKind.STOP, EIGHT_PM, cause))

    decision = judge(stopped, [], now)

    assert decision.command == (OperationKind.START if is_started else None)
    assert decision.because == ("schedule 0 8 * * * UTC" if is_started else "")


def test_a_start_waits_until_the_instance_is_stopped() -> None:
    instance = leased(NIGHTLY, phase=Phase.STOPPING, goal=Goal.STOPPED)
    assert instance.lease is not None
    state = after_command(instance.lease, OperationKind.STOP, EIGHT_PM, EndCause.SCHEDULE)

    assert judge(replace(instance, lease=state), [], EIGHT_PM + 12 * HOUR).command is None


def test_a_notice_of_an_instance_that_stopped_by_itself_is_cancelled() -> None:
    instance = leased(HALF_HOUR)
    instance = recorded(instance, judge(instance, [], T0 + 25 * MINUTE))

    cancelled = judge(replace(instance, phase=Phase.EXITED), [], T0 + 26 * MINUTE)

    assert cancelled.state is not None
    assert (cancelled.state.notice, cancelled.because) == (None, "it is exited")


def test_a_rule_about_use_alone_needs_no_measurements() -> None:
    instance = leased(Lease(idle=IdleRule(after=30 * MINUTE, signals=frozenset({Signal.LAST_USED}))))
    assert judge(instance, [], T0 + MINUTE).wake_at == T0 + 30 * MINUTE

    given = notice(instance, T0 + 30 * MINUTE)

    assert given is not None
    assert (given.reason, given.ends_at) == ("not used for 30 min", T0 + 40 * MINUTE)


def test_the_quiet_time_is_recorded_once_it_is_a_quarter_of_the_window_and_when_a_person_sees_a_difference() -> None:
    instance = leased(Lease(idle=IdleRule(after=20 * MINUTE)))
    writes, samples = list[datetime](), list[IdleSample]()
    for at in every(15 * SECOND, T0, T0 + 19 * MINUTE):
        samples.append(IdleSample(at=at, gpu=0.5, cpu=2.0 + (at > T0 + 10 * MINUTE)))
        decision = judge(instance, samples, at)
        if decision.state is not instance.lease:
            writes.append(at)
        instance = recorded(instance, decision)

    assert writes == [T0 + 5 * MINUTE, T0 + 10 * MINUTE + 15 * SECOND]
    assert instance.lease is not None
    assert instance.lease.idle is not None
    assert (instance.lease.idle.quiet_since, instance.lease.idle.cpu) == (T0, 3.0)
