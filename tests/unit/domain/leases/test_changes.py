"""What commands do to a lease, and what is expected of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.histories.leased import HOUR, MINUTE, T0, leased

from corral.domain.errors import CallerError, GoalRefusedError, SpecInvalidError
from corral.domain.instance import Instance
from corral.domain.leases.changes import Extension, after_command, extended, lease_replaced, new_state, used
from corral.domain.leases.lease import (
    EndAction,
    EndCause,
    IdleRule,
    IdleSummary,
    Lease,
    LeaseState,
    Notice,
    Schedule,
    Signal,
)
from corral.domain.leases.outlook import expected_end, next_start
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import OperationKind
from corral.domain.records import replace
from corral.domain.timing import iso

LEASE = Lease(max_duration=8 * HOUR)
IDLE = Lease(idle=IdleRule(after=30 * MINUTE))
SCHEDULE = Schedule(stop="0 20 * * *", start="0 8 * * *", timezone="Europe/Berlin")


def state(lease: Lease = IDLE, **fields: Any) -> LeaseState:
    return replace(new_state(lease, T0), **fields)


def with_state(found: LeaseState, **fields: Any) -> Instance:
    return replace(leased(None, **fields), lease=found)


def idle_notice(at: datetime) -> Notice:
    return Notice(cause=EndCause.IDLE, reason="GPU 0 %", given_at=at, ends_at=at + 10 * MINUTE)


@given(
    by=st.timedeltas(MINUTE, timedelta(days=365)),
    duration=st.none() | st.timedeltas(MINUTE, timedelta(days=365)),
    present=st.none() | st.timedeltas(-HOUR, timedelta(days=30)),
    later=st.timedeltas(timedelta(0), timedelta(days=400)),
)
def test_an_extension_counts_from_the_latest_of_now_the_end_and_the_last_extension(
    by: timedelta, duration: timedelta | None, present: timedelta | None, later: timedelta
) -> None:
    now = T0 + later
    until = None if present is None else now + present
    lease = Lease(max_duration=duration, idle=IdleRule(after=30 * MINUTE))
    instance = with_state(state(lease, extended_until=until, notice=None))

    after = extended(instance, Extension(by=by), now, None)

    ends = [now, *([] if until is None else [until]), *([] if duration is None else [T0 + duration])]
    assert after.extended_until == max(ends) + by
    end = expected_end(with_state(after), now)
    assert end is None or end.ends_at >= after.extended_until


def test_an_extension_until_a_time_is_exactly_that_and_cancels_a_notice() -> None:
    instance = with_state(state(LEASE, notice=idle_notice(T0), extended_until=T0 + HOUR))

    for until in (T0 + HOUR, T0 + 99 * HOUR):
        after = extended(instance, Extension(until=until), T0, None)
        assert after == replace(instance.lease or after, extended_until=until, notice=None)


def test_an_extension_never_shortens_the_one_before() -> None:
    instance = with_state(state(LEASE, notice=idle_notice(T0), extended_until=T0 + 2 * HOUR))

    with pytest.raises(SpecInvalidError) as caught:
        extended(instance, Extension(until=T0 + 2 * HOUR - MINUTE), T0, None)

    (problem,) = caught.value.problems
    assert (problem.field, problem.code) == ("until", "INVALID_LEASE")
    assert problem.message == f"must not be before {iso(T0 + 2 * HOUR)}, until which it is extended already"


def test_an_extension_stays_below_the_ceiling() -> None:
    instance = leased(LEASE)
    latest = T0 + 10 * HOUR

    assert extended(instance, Extension(by=2 * HOUR), T0, 10 * HOUR).extended_until == latest
    for extension in (Extension(by=2 * HOUR + MINUTE), Extension(until=latest + MINUTE)):
        with pytest.raises(CallerError) as error:
            extended(instance, extension, T0, 10 * HOUR)
        assert (error.value.code, error.value.details["latest"]) == ("LEASE_TOO_LONG", iso(latest))
    with pytest.raises(CallerError, match="at the latest"):
        extended(instance, Extension(until=datetime(9999, 1, 1, tzinfo=T0.tzinfo)), T0, None)


@pytest.mark.parametrize(
    ("instance", "code"),
    [
        (leased(None), "NO_LEASE"),
        (leased(Lease()), "NO_LEASE"),
        (leased(Lease(schedule=Schedule(start="0 8 * * *"))), "NO_LEASE"),
        (leased(LEASE, phase=Phase.EXITED), "INSTANCE_NOT_RUNNING"),
        (leased(LEASE, phase=Phase.STARTING, ready_at=None), "INSTANCE_NOT_RUNNING"),
        (leased(LEASE, phase=Phase.STOPPING, goal=Goal.STOPPED), "INSTANCE_NOT_RUNNING"),
    ],
)
def test_only_the_lease_of_an_instance_that_runs_is_extended(instance: Instance, code: str) -> None:
    with pytest.raises(GoalRefusedError) as error:
        extended(instance, Extension(by=HOUR), T0, None)
    assert error.value.code == code


def test_an_extension_until_the_past_is_invalid() -> None:
    with pytest.raises(SpecInvalidError):
        extended(leased(LEASE), Extension(until=T0), T0, None)


def test_a_use_never_moves_back_and_is_never_in_the_future() -> None:
    instance, now = leased(IDLE), T0 + HOUR

    first = used(instance, None, now)
    assert first.last_used_at == now
    assert used(with_state(first), now - MINUTE, now) is first
    assert used(instance, now + HOUR, now).last_used_at == now
    assert used(leased(None), T0, now) == LeaseState(last_used_at=T0)


def test_a_use_cancels_only_a_notice_of_an_idle_rule_that_looks_at_uses() -> None:
    now = T0 + HOUR
    blind = Lease(idle=IdleRule(after=30 * MINUTE, signals=frozenset({Signal.GPU})))
    fixed = replace(idle_notice(now), cause=EndCause.MAX_DURATION)

    assert used(with_state(state(notice=idle_notice(now))), None, now).notice is None
    assert used(with_state(state(notice=idle_notice(now))), now - 30 * MINUTE, now).notice is not None
    assert used(with_state(state(blind, notice=idle_notice(now))), None, now).notice is not None
    assert used(with_state(state(notice=fixed)), None, now).notice == fixed


def test_a_changed_lease_cancels_a_notice_of_what_changed_and_keeps_what_has_happened() -> None:
    """A notice of what is unchanged stays: else repeated changes of something else would put off an end for ever."""
    now, lease = T0 + HOUR, replace(LEASE, idle=IdleRule(after=HOUR))
    before = state(lease, notice=idle_notice(now), extended_until=T0 + 9 * HOUR, last_used_at=T0, scheduled_at=T0)
    longer = replace(lease, idle=IdleRule(after=9 * HOUR))

    assert lease_replaced(with_state(before), longer, now) == replace(before, lease=longer, notice=None)
    for kept in (replace(lease, max_duration=9 * HOUR), replace(lease, grace=MINUTE)):
        assert lease_replaced(with_state(before), kept, now) == replace(before, lease=kept)
    for other in (replace(lease, on_end=EndAction.DELETE), replace(lease, grace=HOUR)):
        assert lease_replaced(with_state(before), other, now).notice is None
    assert lease_replaced(with_state(before), Lease(), now).extended_until is None
    scheduled = lease_replaced(with_state(before), replace(lease, schedule=SCHEDULE), now)
    assert scheduled.scheduled_at == now
    assert lease_replaced(leased(None), LEASE, now) == new_state(LEASE, now)


def test_a_start_begins_a_new_lease_and_a_stop_remembers_whether_it_was_the_lease() -> None:
    summary = IdleSummary(quiet_since=T0, gpu=0.0, cpu=1.0, judged_at=T0)
    before = state(extended_until=T0, notice=idle_notice(T0), last_used_at=T0, ended_by=EndCause.IDLE, idle=summary)
    now = T0 + HOUR
    fresh = state(last_used_at=T0)

    assert after_command(before, OperationKind.START, now) == replace(fresh, scheduled_at=now)
    assert after_command(before, OperationKind.STOP, now) == fresh
    own = after_command(before, OperationKind.STOP, now, EndCause.SCHEDULE)
    assert own == replace(fresh, scheduled_at=now, ended_by=EndCause.SCHEDULE)
    assert after_command(before, OperationKind.RESTART, now) == replace(before, ended_by=None)


def test_the_expected_end_is_the_earliest_or_the_one_announced() -> None:
    now = T0 + 20 * MINUTE
    summary = IdleSummary(quiet_since=T0 + 3 * MINUTE, gpu=0.0, cpu=2.0, judged_at=T0 + 10 * MINUTE)
    lease = Lease(max_duration=9 * HOUR, idle=IdleRule(after=30 * MINUTE), schedule=SCHEDULE)

    def seen(instance: Instance) -> tuple[object, ...] | None:
        end = expected_end(instance, now)
        return None if end is None else (end.cause, end.ends_at, end.reason)

    quiet = "GPU 0 %, CPU 2 % since 12:03 UTC; idle after 30 min"
    assert seen(with_state(state(lease, idle=summary))) == (EndCause.IDLE, T0 + 43 * MINUTE, quiet)
    eight_pm = T0 + 7 * HOUR
    assert seen(with_state(state(lease))) == (EndCause.SCHEDULE, eight_pm, "schedule 0 20 * * * Europe/Berlin")
    assert seen(leased(LEASE)) == (EndCause.MAX_DURATION, T0 + 8 * HOUR, "maximum duration of 8 h")
    announced = idle_notice(T0)
    assert seen(with_state(state(lease, notice=announced))) == (EndCause.IDLE, announced.ends_at, announced.reason)
    assert seen(leased(LEASE, phase=Phase.EXITED)) is None
    assert seen(leased(IDLE)) is None
    assert seen(leased(None)) is None
    use = replace(IDLE, idle=IdleRule(after=30 * MINUTE, signals=frozenset({Signal.LAST_USED})))
    unused = "not used since 12:00 UTC; idle after 30 min"
    assert seen(leased(use)) == (EndCause.IDLE, T0 + 40 * MINUTE, unused)


def test_the_next_start_is_shown_for_what_the_lease_stopped() -> None:
    stopped = state(Lease(schedule=SCHEDULE), ended_by=EndCause.SCHEDULE)
    instance = with_state(stopped, phase=Phase.EXITED, goal=Goal.STOPPED)

    assert next_start(instance, T0) == T0 + 19 * HOUR
    assert next_start(with_state(stopped), T0) is None
    assert next_start(with_state(replace(stopped, ended_by=None), phase=Phase.EXITED, goal=Goal.STOPPED), T0) is None
