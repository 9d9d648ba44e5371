"""The breaker, for every sequence of calls, ends and waits."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from corral.base.settings.configuration import load
from corral.cloud.breaker import (
    FAILURES_TO_OPEN,
    FIRST_PAUSE_SECONDS,
    MOST_TRIALS,
    Breaker,
    BreakerState,
    Ticket,
    default_threshold,
)

MOST_PAUSE = 60.0


class BreakerMachine(RuleBasedStateMachine):
    """Calls begin and end in any order; a small model says what must be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(most_pause_seconds=MOST_PAUSE)
        self.now = 0.0
        self.under_way: list[tuple[Ticket, bool]] = []
        self.failed_in_a_row = 0
        self.pauses: list[float] = []

    def state(self) -> BreakerState:
        return self.breaker.state(self.now)

    @rule()
    def begin(self) -> None:
        before = self.state()
        expected = self.breaker.admits(self.now)
        ticket = self.breaker.enter(self.now)
        assert (ticket is not None) == expected
        assert before is not BreakerState.OPEN or ticket is None
        assert before is not BreakerState.CLOSED or ticket is not None
        if ticket is not None:
            self.under_way.append((ticket, before is BreakerState.HALF_OPEN))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), healthy=st.sampled_from([True, False, None]))
    def end(self, data: st.DataObject, healthy: bool | None) -> None:  # noqa: FBT001  # as drawn
        ticket, is_trial = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        before = self.state()
        self.breaker.leave(ticket, healthy=healthy, now=self.now)
        after = self.state()
        if after is before:
            return
        if after is BreakerState.OPEN:
            assert healthy is False
            pause = self.breaker.retry_after_seconds(self.now)
            expected = min(MOST_PAUSE, 2 * self.pauses[-1]) if self.pauses else FIRST_PAUSE_SECONDS
            assert pause == expected
            self.pauses.append(pause)
        else:
            assert after is BreakerState.CLOSED
            assert healthy is True
            assert is_trial
            self.pauses.clear()

    @rule(seconds=st.sampled_from([0.0, 0.1, 4.9, 5.0, 10.0, 60.0]))
    def wait(self, seconds: float) -> None:
        before, left = self.state(), self.breaker.retry_after_seconds(self.now)
        self.now += seconds
        if before is BreakerState.OPEN:
            assert self.state() is (BreakerState.OPEN if self.now < self.now - seconds + left else self.state())
        if before is BreakerState.OPEN and seconds > left:
            assert self.state() is BreakerState.HALF_OPEN

    @invariant()
    def no_more_than_three_try_at_once(self) -> None:
        if self.state() is BreakerState.HALF_OPEN:
            era = max((ticket.period for ticket, _ in self.under_way), default=0)
            trying = [ticket for ticket, is_trial in self.under_way if is_trial and ticket.period == era]
            assert len(trying) <= MOST_TRIALS


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
