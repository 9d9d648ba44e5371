"""Times of a lease that were recorded while the clock was ahead."""

from __future__ import annotations

import pytest
from support.histories.leased import HOUR, MINUTE, T0, leased

from corral.domain.leases.decide import judge
from corral.domain.leases.lease import IdleRule, Lease, Schedule, Signal
from corral.domain.records import replace

HALF_HOUR = Lease(max_duration=30 * MINUTE)
NIGHTLY = Lease(schedule=Schedule(stop="0 20 * * *", start="0 8 * * *"))


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_notice_from_the_future_is_cancelled(*, is_awaited: bool) -> None:
    """The clock was set back: the end that it announces is as far away."""
    instance, ahead = leased(HALF_HOUR), T0 + 24 * HOUR
    state = judge(instance, [], T0 + 20 * MINUTE).state
    assert state is not None
    assert state.notice is not None
    given = replace(state.notice, ends_at=ahead + HOUR)
    given = replace(given, awaited_since=ahead) if is_awaited else replace(given, given_at=ahead)
    decision = judge(replace(instance, lease=replace(state, notice=given)), [], T0 + 5 * MINUTE)

    assert decision.state is not None
    assert (decision.state.notice, decision.because) == (None, "the clock was set back since")


def test_uses_and_commands_from_the_future_count_as_now() -> None:
    """Else no stop of the schedule would come, and it would not be idle, before the clock is there again."""
    rule = IdleRule(after=10 * MINUTE, signals=frozenset({Signal.LAST_USED}))
    instance = leased(replace(NIGHTLY, idle=rule))
    assert instance.lease is not None
    ahead = replace(instance.lease, last_used_at=T0 + 24 * HOUR, scheduled_at=T0 + 24 * HOUR)
    decision = judge(replace(instance, lease=ahead), [], T0 + HOUR)

    assert decision.state == replace(instance.lease, last_used_at=T0 + HOUR, scheduled_at=T0 + HOUR)
    assert decision.wake_at == T0 + HOUR + rule.after
