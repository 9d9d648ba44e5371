"""How often something happened lately: the measure of how much of it to prepare for."""

from __future__ import annotations

from collections import deque

from corral.base.clock import Clock


class RecentCount:
    """Counts what happened within the last *seconds*, up to *most*."""

    def __init__(self, clock: Clock, *, seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._times: deque[float] = deque(maxlen=most)

    def note(self) -> None:
        """It happened."""
        self._times.append(self._clock.monotonic())

    def count(self) -> int:
        """How often it did."""
        since = self._clock.monotonic() - self._seconds
        while self._times and self._times[0] < since:
            self._times.popleft()
        return len(self._times)
