"""When the end of an idle instance, which is due, comes: with measurements that are late, and after outages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from support.histories.leased import MINUTE, SECOND, T0, every, leased, measured

from corral.domain.instance import Instance
from corral.domain.leases.changes import used
from corral.domain.leases.decide import LeaseDecision, judge
from corral.domain.leases.lease import IdleRule, Lease, Notice, Signal
from corral.domain.operation import OperationKind
from corral.domain.records import replace

USE_ALONE = frozenset({Signal.LAST_USED})
HALF_HOUR = IdleRule(after=30 * MINUTE)
Samples = Callable[[datetime], list[datetime]]


def published(late: timedelta, distance: timedelta = 15 * SECOND) -> Samples:
    """What is known at a time: measurements of a quiet machine, so far apart and so late."""
    return lambda now: every(distance, T0, now - late)


def recorded(instance: Instance, decision: LeaseDecision) -> Instance:
    return replace(instance, lease=decision.state)


def noticed(lease: Lease, samples: Samples) -> tuple[Instance, Notice]:
    """An idle instance when notice is given."""
    instance, now = leased(lease), T0 if lease.idle is None else T0 + lease.idle.after - MINUTE
    while instance.lease is None or instance.lease.notice is None:
        now += 5 * SECOND
        instance = recorded(instance, judge(instance, measured(samples(now)), now))
    return instance, instance.lease.notice


def lived(lease: Lease, samples: Samples, length: timedelta) -> list[tuple[str, datetime]]:
    """What happens to a quiet instance that is judged every 5 s, until it ends or *length* has passed."""
    instance, happened = leased(lease), list[tuple[str, datetime]]()
    for now in every(5 * SECOND, T0, T0 + length):
        decision = judge(instance, measured(samples(now)[-130:]), now)
        before, after = (each and each.notice for each in (instance.lease, decision.state))
        if decision.command is not None:
            return [*happened, ("end", now)]
        if (before is None) != (after is None):
            happened.append(("notice" if before is None else "cancelled", now))
        instance = recorded(instance, decision)
    return happened


@pytest.mark.parametrize("grace", [0, 30, 60, 90, 150])
@pytest.mark.parametrize("after", [1, 2, 5, 30])
def test_an_idle_end_rests_on_a_measurement_made_after_its_notice(after: int, grace: int) -> None:
    """One from before it does not show what was done since, such as by a user who got the notice."""
    late = 60 * SECOND
    lease = Lease(idle=IdleRule(after=after * MINUTE), grace=grace * SECOND)
    seen = lived(lease, published(late), (after + 10) * MINUTE)

    assert [what for what, _ in seen] == ["notice", "end"]
    (_, given_at), (_, ended_at) = seen
    assert ended_at - late > given_at
    assert ended_at <= given_at + lease.grace + 95 * SECOND, "what is waited for comes within that time"


@pytest.mark.parametrize("late", [70, 80, 90, 95, 120])
@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("grace", [0, 30, 600])
def test_late_measurements_make_one_notice_or_none(after: int, grace: int, late: int) -> None:
    """Between two measurements the newest may be too old to judge by, which is no reason to cancel and begin again."""
    lease = Lease(idle=IdleRule(after=after * MINUTE), grace=grace * SECOND)

    seen = [what for what, _ in lived(lease, published(late * SECOND), 20 * MINUTE)]

    assert seen == (["notice", "end"] if late <= 90 else [])


def test_lateness_that_varies_makes_one_notice() -> None:
    lates = [60, 110, 95, 70, 130, 85, 100]

    def samples(now: datetime) -> list[datetime]:
        late = lates[(now - T0) // (20 * SECOND) % len(lates)]
        return every(15 * SECOND, T0, now - late * SECOND)

    seen = lived(Lease(idle=IdleRule(after=2 * MINUTE), grace=30 * SECOND), samples, 20 * MINUTE)

    assert [what for what, _ in seen] == ["notice", "end"]


@pytest.mark.parametrize("rule", [HALF_HOUR, IdleRule(after=90 * MINUTE)])
def test_what_was_not_measured_lately_is_not_idle(rule: IdleRule) -> None:
    """However much of the window is covered: what happens now is not known."""
    instance, notice = noticed(Lease(idle=rule), published(MINUTE))
    stopped = notice.given_at + MINUTE
    known = measured(every(15 * SECOND, T0, stopped))

    for now in every(30 * SECOND, notice.given_at, notice.ends_at + 20 * MINUTE):
        decision = judge(instance, known, now)
        assert decision.command is None
        instance = recorded(instance, decision)

    assert instance.lease is not None
    assert instance.lease.notice is None


def test_an_end_that_is_not_measured_is_given_up_after_ten_minutes() -> None:
    instance, notice = noticed(Lease(idle=HALF_HOUR), published(MINUTE))
    known = measured(every(15 * SECOND, T0, notice.given_at))
    waits = judge(instance, known, notice.ends_at)
    assert waits.wake_at == notice.ends_at + 90 * SECOND
    instance = recorded(instance, waits)
    assert judge(instance, known, notice.ends_at + 90 * SECOND).wake_at == notice.ends_at + 10 * MINUTE

    given_up = judge(instance, known, notice.ends_at + 10 * MINUTE)

    assert given_up.state is not None
    assert (given_up.state.notice, given_up.because) == (None, "measured for less than 80% of 30 min")


@pytest.mark.parametrize("away", [16, 60, 119])
def test_after_an_outage_an_idle_end_needs_a_measurement_from_after_its_time(away: int) -> None:
    """No user could extend it and nothing was seen: what was measured before the outage proves nothing."""
    instance, notice = noticed(Lease(idle=HALF_HOUR), published(MINUTE))
    back = notice.ends_at + away * SECOND
    before = measured(every(15 * SECOND, T0, notice.ends_at - MINUTE))
    first = judge(instance, before, back)
    assert (first.command, first.because) == (None, "")
    instance = recorded(instance, first)

    known = measured(every(15 * SECOND, T0, back + 30 * SECOND))
    early = judge(instance, known, back + 89 * SECOND)
    assert (early.command, early.wake_at) == (None, back + 90 * SECOND), "a session may report its use until then"
    assert judge(instance, known, back + 90 * SECOND).command is OperationKind.STOP
    assert judge(instance, before, back + 90 * SECOND).command is None


def test_a_session_that_reports_after_an_outage_cancels_the_end() -> None:
    """With a rule about use alone there is no measurement to wait for, but reports were lost."""
    lease = Lease(idle=IdleRule(after=30 * MINUTE, signals=USE_ALONE))
    instance, notice = noticed(lease, lambda _: [])
    assert judge(instance, [], notice.ends_at + 15 * SECOND).command is OperationKind.STOP
    back = notice.ends_at + 16 * SECOND
    instance = recorded(instance, judge(instance, [], back))
    assert judge(instance, [], back + 89 * SECOND).command is None
    assert judge(instance, [], back + 90 * SECOND).command is OperationKind.STOP

    reported = replace(instance, lease=used(instance, None, back + 30 * SECOND))

    assert reported.lease is not None
    assert reported.lease.notice is None
    assert judge(reported, [], back + 90 * SECOND).command is None


def test_a_long_outage_gives_the_notice_again_and_an_end_that_waits_does_not() -> None:
    instance, notice = noticed(Lease(idle=HALF_HOUR), published(MINUTE))
    late = notice.ends_at + 2 * MINUTE + SECOND
    samples = measured(published(MINUTE)(late))

    again = judge(instance, samples, late).state
    assert again is not None
    assert again.notice is not None
    assert again.notice.ends_at == late + 10 * MINUTE

    waiting = recorded(instance, judge(instance, [], notice.ends_at))
    assert judge(waiting, measured(published(MINUTE)(late)), late).command is OperationKind.STOP
