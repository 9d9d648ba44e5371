"""The breaker, for every sequence of calls, ends and waits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from corral.base.settings.configuration import load
from corral.cloud.breaker import (
    FAILURES_TO_OPEN,
    FIRST_PAUSE_SECONDS,
    MOST_TRIALS,
    URGENT_SECONDS,
    Breaker,
    BreakerState,
    Ticket,
    default_threshold,
)

MOST_PAUSE = 60.0
EPSILON = 1e-6
"""More than what sums of seconds are rounded by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A call that has not ended, and what the breaker was when it began."""

    ticket: Ticket
    era: int
    began: BreakerState
    is_trial: bool
    """Whether it holds one of the places of a half open breaker."""


class BreakerMachine(RuleBasedStateMachine):
    """Calls begin and end in any order; a small model says what must be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(most_pause_seconds=MOST_PAUSE)
        self.now = 0.0
        self.under_way: list[UnderWay] = []
        self.era = 0
        self.urgent_from = 0.0
        self.pauses: list[float] = []

    def state(self) -> BreakerState:
        return self.breaker.state(self.now)

    def trials(self) -> int:
        return sum(each.is_trial for each in self.under_way if each.era == self.era)

    def began(self, ticket: Ticket, state: BreakerState, *, is_trial: bool) -> None:
        self.under_way.append(UnderWay(ticket=ticket, era=self.era, began=state, is_trial=is_trial))

    def has_room(self) -> bool:
        """Whether a call that is not urgent passes."""
        half_open = self.state() is BreakerState.HALF_OPEN and self.trials() < MOST_TRIALS
        return half_open or self.state() is BreakerState.CLOSED

    @rule()
    def begin(self) -> None:
        before, expected = self.state(), self.has_room()
        assert self.breaker.admits(self.now) == expected
        ticket = self.breaker.enter(self.now)
        assert (ticket is not None) == expected
        if ticket is not None:
            self.began(ticket, before, is_trial=before is BreakerState.HALF_OPEN)

    @rule()
    def begin_urgent(self) -> None:
        before, has_room = self.state(), self.has_room()
        expected = has_room or self.now >= self.urgent_from
        left = self.breaker.retry_after_seconds(self.now, is_urgent=True)
        for _ in range(2):
            assert self.breaker.admits(self.now, is_urgent=True) == expected, "asking takes nothing"
        ticket = self.breaker.enter(self.now, is_urgent=True)
        assert (ticket is not None) == expected
        if ticket is None:
            assert 0 < left <= self.urgent_from - self.now <= URGENT_SECONDS
            return
        assert left == 0
        self.began(ticket, before, is_trial=has_room and before is BreakerState.HALF_OPEN)
        if not has_room:
            self.urgent_from = self.now + URGENT_SECONDS

    @precondition(lambda self: not self.breaker.admits(self.now, is_urgent=True))
    @rule()
    def come_back_in_time(self) -> None:
        self.now += self.breaker.retry_after_seconds(self.now, is_urgent=True) + EPSILON
        assert self.breaker.admits(self.now, is_urgent=True)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), healthy=st.sampled_from([True, False, None]))
    def end(self, data: st.DataObject, healthy: bool | None) -> None:  # noqa: FBT001  # as drawn
        call = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        before, left = self.state(), self.breaker.retry_after_seconds(self.now)
        self.breaker.leave(call.ticket, healthy=healthy, now=self.now)
        after = self.state()
        if call.era != self.era or healthy is None or (healthy is False and call.began is BreakerState.OPEN):
            assert (after, self.breaker.retry_after_seconds(self.now)) == (before, left)
        elif healthy:
            assert after is BreakerState.CLOSED
        elif before is BreakerState.HALF_OPEN:
            assert after is BreakerState.OPEN
        if after is before:
            return
        self.era += 1
        if after is BreakerState.OPEN:
            pause = self.breaker.retry_after_seconds(self.now)
            expected = min(MOST_PAUSE, 2 * self.pauses[-1]) if self.pauses else FIRST_PAUSE_SECONDS
            assert pause == pytest.approx(expected)
            self.pauses.append(expected)
        else:
            assert call.began is not BreakerState.CLOSED
            self.pauses.clear()

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.9, 2.0, 4.9, 5.0, 10.0, 60.0]))
    def wait(self, seconds: float) -> None:
        before, left = self.state(), self.breaker.retry_after_seconds(self.now)
        self.now += seconds
        if before is BreakerState.OPEN:
            assert self.state() is (BreakerState.OPEN if self.now < self.now - seconds + left else self.state())
        if before is BreakerState.OPEN and seconds > left:
            assert self.state() is BreakerState.HALF_OPEN

    @invariant()
    def no_more_than_three_try_at_once(self) -> None:
        assert self.trials() <= MOST_TRIALS


TestBreakerMachine = BreakerMachine.TestCase


def fail(breaker: Breaker, now: float) -> None:
    ticket = breaker.enter(now)
    assert ticket is not None
    breaker.leave(ticket, healthy=False, now=now)


def test_five_failures_in_a_row_open_it_and_four_do_not() -> None:
    """A success in between starts the count again."""
    breaker = Breaker(most_pause_seconds=MOST_PAUSE)
    for _ in range(FAILURES_TO_OPEN - 1):
        fail(breaker, 0.0)
    ticket = breaker.enter(0.0)
    assert ticket is not None
    breaker.leave(ticket, healthy=True, now=0.0)
    for _ in range(FAILURES_TO_OPEN - 1):
        fail(breaker, 0.0)
    assert breaker.state(0.0) is BreakerState.CLOSED

    fail(breaker, 0.0)

    assert breaker.state(4.9) is BreakerState.OPEN
    assert breaker.state(5.0) is BreakerState.HALF_OPEN


def test_pauses_double_to_the_setting_and_start_over_after_a_success() -> None:
    """A provider that is down for an hour is asked about once a minute."""
    breaker = Breaker(most_pause_seconds=30.0)
    now, pauses = 0.0, []
    for _ in range(FAILURES_TO_OPEN):
        fail(breaker, now)
    for _ in range(5):
        pauses.append(breaker.retry_after_seconds(now))
        now += pauses[-1]
        fail(breaker, now)

    assert pauses == [5.0, 10.0, 20.0, 30.0, 30.0]


def test_the_late_end_of_an_old_call_changes_nothing() -> None:
    """A call that began before the opening does not count."""
    breaker = Breaker(most_pause_seconds=MOST_PAUSE)
    old = breaker.enter(0.0)
    assert old is not None
    for _ in range(FAILURES_TO_OPEN):
        fail(breaker, 0.0)

    breaker.leave(old, healthy=True, now=1.0)

    assert breaker.state(1.0) is BreakerState.OPEN


def opened(now: float) -> Breaker:
    """A breaker that opened at *now*."""
    breaker = Breaker(most_pause_seconds=MOST_PAUSE)
    for _ in range(FAILURES_TO_OPEN):
        fail(breaker, now)
    return breaker


def test_a_stop_passes_an_open_breaker_every_two_seconds() -> None:
    """Machines are billed while others of them hang; a provider that is down is asked no more often for it."""
    breaker = opened(0.0)
    sent = [tenths / 10 for tenths in range(49) if breaker.enter(tenths / 10, is_urgent=True) is not None]

    assert sent == [0.0, 2.0, 4.0]
    assert breaker.enter(4.9) is None
    assert breaker.retry_after_seconds(3.5, is_urgent=True) == pytest.approx(1.5), "when the breaker is half open"
    assert breaker.retry_after_seconds(3.5) == pytest.approx(1.5)


def test_a_stop_passes_although_every_trial_hangs() -> None:
    """Reads that hang hold their places for half a minute."""
    breaker = opened(0.0)
    trials = [breaker.enter(5.0) for _ in range(MOST_TRIALS)]
    assert None not in trials
    assert breaker.enter(5.0) is None

    first = breaker.enter(5.0, is_urgent=True)
    assert first is not None
    assert breaker.enter(6.0, is_urgent=True) is None
    assert breaker.retry_after_seconds(6.0, is_urgent=True) == pytest.approx(1.0)
    assert breaker.enter(7.0, is_urgent=True) is not None

    breaker.leave(first, healthy=True, now=7.5)
    assert breaker.state(7.5) is BreakerState.CLOSED


def test_a_stop_that_works_closes_an_open_breaker() -> None:
    """The provider answers, so the others need not wait for the pause to end."""
    breaker = opened(0.0)
    stop = breaker.enter(1.0, is_urgent=True)
    assert stop is not None

    breaker.leave(stop, healthy=True, now=1.5)

    assert breaker.state(1.5) is BreakerState.CLOSED


def test_stops_that_fail_do_not_lengthen_the_pause() -> None:
    """A stop that fails every two seconds, of one broken machine, would keep all other calls from ever being tried."""
    breaker = opened(0.0)
    for now in (0.0, 2.0, 4.0):
        stop = breaker.enter(now, is_urgent=True)
        assert stop is not None
        breaker.leave(stop, healthy=False, now=now + 0.5)

    assert breaker.retry_after_seconds(4.5) == pytest.approx(0.5)
    assert breaker.enter(5.0) is not None


def test_a_stop_that_fails_while_trials_hang_opens_it_once_and_trials_follow() -> None:
    """It counts as a failed trial; the places of those that still hang are free again after the pause."""
    breaker = opened(0.0)
    trials = [breaker.enter(5.0) for _ in range(MOST_TRIALS)]
    stops = [breaker.enter(now, is_urgent=True) for now in (5.0, 7.0)]
    for stop in stops:
        assert stop is not None
        breaker.leave(stop, healthy=False, now=8.0)

    assert breaker.retry_after_seconds(8.0) == pytest.approx(2 * FIRST_PAUSE_SECONDS)
    assert [breaker.enter(18.0) is not None for _ in range(MOST_TRIALS + 1)] == [True] * MOST_TRIALS + [False]
    for trial in trials:
        assert trial is not None
        breaker.leave(trial, healthy=False, now=19.0)
    assert breaker.state(19.0) is BreakerState.HALF_OPEN


@pytest.mark.parametrize(
    ("setting", "retries", "threshold"), [("0", "3", 5), ("0", "1", 5), ("0", "10", 12), ("2", "10", 2), ("9", "3", 9)]
)
def test_the_threshold_is_a_setting_and_else_follows_the_retries(setting: str, retries: str, threshold: int) -> None:
    """The retries of one call alone must not open it, however many are allowed."""
    settings = load({"CIRCUIT_BREAKER_THRESHOLD": setting, "MAX_RETRY_ATTEMPTS": retries}).settings.provider
    chosen = settings.breaker_threshold or default_threshold(settings.max_retry_attempts)
    breaker = Breaker(most_pause_seconds=60.0, threshold=chosen)
    failures = 0
    while (ticket := breaker.enter(0.0)) is not None:
        breaker.leave(ticket, healthy=False, now=0.0)
        failures += 1

    assert failures == chosen == threshold
