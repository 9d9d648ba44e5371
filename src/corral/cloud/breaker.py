"""
A circuit breaker: when the provider keeps failing, it is not called for a while.

Pure: time is an argument. CLOSED lets everything through and opens after a number of failures in a row. OPEN lets
nothing through until its pause is over. HALF_OPEN lets three calls at a time through: the first success closes it, a
failure opens it again for twice as long. A ticket records the state in which its call began; the end of a call from an
earlier state is ignored.

Urgent calls (stops and deletes) pass, one every two seconds, while it is OPEN or calls that hang hold the three places:
what opened it may be the lookups of other machines. A success closes it. A failure counts in HALF_OPEN only: one that
lengthened the pause would, repeated every two seconds for one broken machine, keep all other calls from being tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FAILURES_TO_OPEN: Final = 5
RETRIES_OF_OTHERS: Final = 2
"""One call fails once more than it is retried; the breaker must not open on the failures of one call alone."""
FIRST_PAUSE_SECONDS: Final = 5.0
MOST_TRIALS: Final = 3
URGENT_SECONDS: Final = 2.0
"""
How often an urgent call passes a breaker that lets no other call through.

Shorter, and a provider that is down is called more often than needed to notice that it is back; longer, and machines
that it would stop are billed for so long.
"""


class BreakerState(StrEnum):
    """Whether the provider is called."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """The right to one call; pass it to `leave` with the outcome."""

    period: int
    began: BreakerState
    is_trial: bool
    """Whether it holds one of the places of HALF_OPEN."""


def default_threshold(max_retries: int) -> int:
    """How many failures in a row open the breaker where no setting says so."""
    return max(FAILURES_TO_OPEN, max_retries + RETRIES_OF_OTHERS)


class Breaker:
    """The breaker of one process. *threshold* failures in a row open it; *most_pause_seconds* is its longest pause."""

    def __init__(self, *, most_pause_seconds: float, threshold: int = FAILURES_TO_OPEN) -> None:
        self._threshold = threshold
        self._most_pause = max(most_pause_seconds, FIRST_PAUSE_SECONDS)
        self._pause = 0.0
        self._open_until: float | None = None
        self._half_open = False
        self._failures = 0
        self._trials = 0
        self._period = 0
        self._urgent_from = 0.0

    def state(self, now: float) -> BreakerState:
        """The state at *now*; a pause that is over counts as half open, even before the first call."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if self._half_open or now >= self._open_until else BreakerState.OPEN

    def retry_after_seconds(self, now: float, *, is_urgent: bool = False) -> float:
        """Seconds until the next call, or the next urgent one, may be sent."""
        left = max(0.0, (self._open_until or 0.0) - now)
        if not is_urgent:
            return left
        if self._has_room(now):
            return 0.0
        until_urgent = max(0.0, self._urgent_from - now)
        return min(until_urgent, left) if self.state(now) is BreakerState.OPEN else until_urgent

    def admits(self, now: float, *, is_urgent: bool = False) -> bool:
        """Whether a call would be let through; nothing is taken."""
        return self._has_room(now) or (is_urgent and now >= self._urgent_from)

    def enter(self, now: float, *, is_urgent: bool = False) -> Ticket | None:
        """A ticket for one call, to be passed to `leave`; None when the call must not be sent."""
        if not self.admits(now, is_urgent=is_urgent):
            return None
        state, has_room = self.state(now), self._has_room(now)
        is_trial = has_room and state is BreakerState.HALF_OPEN
        if is_trial:
            self._half_open = True
            self._trials += 1
        if not has_room:
            self._urgent_from = now + URGENT_SECONDS
        return Ticket(self._period, began=state, is_trial=is_trial)

    def leave(self, ticket: Ticket, *, healthy: bool | None, now: float) -> None:
        """The call ended: the provider answered (*healthy*), it failed, or the outcome shows neither (None)."""
        if ticket.period != self._period:
            return
        if ticket.is_trial:
            self._trials -= 1
        if healthy:
            self._failures = 0
            if ticket.began is not BreakerState.CLOSED:
                self._close()
        elif healthy is False and ticket.began is not BreakerState.OPEN:
            self._failures += 1
            if self._half_open or self._failures >= self._threshold:
                self._open(now)

    def _has_room(self, now: float) -> bool:
        """Whether a call that is not urgent would be let through."""
        match self.state(now):
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return False
            case BreakerState.HALF_OPEN:
                return self._trials < MOST_TRIALS

    def _open(self, now: float) -> None:
        self._pause = min(self._most_pause, 2 * self._pause or FIRST_PAUSE_SECONDS)
        self._open_until = now + self._pause
        self._half_open = False
        self._failures = 0
        self._trials = 0
        self._period += 1

    def _close(self) -> None:
        self._pause = 0.0
        self._open_until = None
        self._half_open = False
        self._trials = 0
        self._period += 1
