"""
The pause of one service of the provider after it refused a call for coming too often (429).

Pure: time is an argument. Measurements and bills come from other services than machines, with limits of their own that
are not documented: what they refuse slows down the calls to them alone, and neither lowers the limit of the account nor
counts for the circuit breaker.
"""

from __future__ import annotations

import math
from typing import Final

FIRST_PAUSE_SECONDS: Final = 5.0
MOST_PAUSE_SECONDS: Final = 60.0
"""The longest pause that the service did not ask for. Longer, and what it offers is used late; shorter, and a service
that refuses everything is called more often than needed to notice that it stopped."""
FORGOTTEN_SECONDS: Final = 60.0
"""How long after a pause a refusal counts as another one of the same series, which doubles the pause. Shorter than the
minute that limits are counted by, and every minute begins with the shortest pause; longer, and a refusal that has
nothing to do with the last one makes a long pause."""


class RefusalPause:
    """The pause of one service, as far as this process knows."""

    def __init__(self) -> None:
        self._until = -math.inf
        self._seconds = 0.0

    def left(self, now: float) -> float:
        """Seconds until the service may be called; 0: now."""
        return max(0.0, self._until - now)

    def refused(self, now: float, *, sent_at: float, asked_seconds: float | None) -> bool:
        """
        The service refused a call that was sent at *sent_at*, and asked for a pause; returns whether a new one begins.

        One that was sent before the last pause was over shows nothing new, but what it asks for counts.
        """
        is_new = sent_at >= self._until
        if is_new:
            is_again = now - self._until < FORGOTTEN_SECONDS
            self._seconds = min(2 * self._seconds, MOST_PAUSE_SECONDS) if is_again else FIRST_PAUSE_SECONDS
            self._until = now + self._seconds
        self._until = max(self._until, now + (asked_seconds or 0.0))
        return is_new
