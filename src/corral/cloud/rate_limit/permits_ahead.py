"""
Permits taken ahead, for calls that will probably follow within a moment.

A permit is counted in the state that all processes share, by a transaction. In a burst that would be one for nearly
every call. So as many permits more are taken as were used a moment ago. They count from then on, used or not, and are
forgotten after that moment. The rate limiter grants few of them, and none where the limit is scarce (`take_ahead`).
"""

from __future__ import annotations

from typing import Final

from corral.base.clock import Clock
from corral.base.recent_count import RecentCount

AHEAD_SECONDS: Final = 0.25
"""
How long a permit is kept, and how long ago calls were made that show how many will follow.

Longer than the second that the rate limiter allows for the way to the wire, and more calls than the limit could arrive
in a minute; shorter, and a burst makes more transactions.
"""
MOST_AHEAD: Final = 100


class PermitsAhead:
    """The permits that this process has taken ahead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._used = RecentCount(clock, seconds=AHEAD_SECONDS, most=MOST_AHEAD)
        self._left = 0
        self._granted_at = 0.0
        self._until = 0.0

    def wanted(self) -> int:
        """How many to take with the next revision of the shared state; none while there are some."""
        return 0 if self._has_some() else self._used.count()

    def put(self, permits: int, granted_at: float) -> None:
        """Keep these *permits*, if there are any."""
        if permits:
            self._left, self._granted_at = permits, granted_at
            self._until = self._clock.monotonic() + AHEAD_SECONDS

    def take(self, *, may_use: bool) -> float | None:
        """
        Count a call, and use a permit for it if there is one and it *may_use* it.

        Returns when that permit was granted, by the store's clock.
        """
        self._used.note()
        if not may_use or not self._has_some():
            return None
        self._left -= 1
        return self._granted_at

    def forget(self) -> None:
        """Use none of them: the provider refused a call."""
        self._left = 0

    def _has_some(self) -> bool:
        return self._left > 0 and self._clock.monotonic() <= self._until
