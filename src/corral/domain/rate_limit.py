"""
How often one caller may ask.

A window begins with a caller's first request and ends after a fixed time; in it the caller has so many requests. Time
is an argument (seconds that never run backwards). The callers remembered are bounded: when there are too many, those
whose windows began first are forgotten and may begin anew, which is the smaller harm.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MOST_CALLERS: Final = 10_000
"""About a megabyte. Fewer, and a crowd of strangers makes room for itself; keys are few and always fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a caller stands after one more request."""

    limit: int
    remaining: int
    resets_in_seconds: float
    admitted: bool


@dataclass(slots=True)
class _Window:
    ends_at: float
    used: int = 0


class RateLimit:
    """Counts the requests of each caller; *most* in every *window_seconds*."""

    def __init__(self, *, most: int, window_seconds: float, most_callers: int = MOST_CALLERS) -> None:
        self._most = most
        self._window_seconds = window_seconds
        self._most_callers = most_callers
        self._windows: OrderedDict[str, _Window] = OrderedDict()  # in the order in which they end

    def take(self, caller: str, now: float) -> Standing:
        """Count one request of *caller*; one that is not admitted uses nothing up."""
        self._forget_ended(now)
        window = self._windows.get(caller)
        if window is None:
            if len(self._windows) >= self._most_callers:
                self._windows.popitem(last=False)
            window = self._windows[caller] = _Window(now + self._window_seconds)
        admitted = window.used < self._most
        window.used += admitted
        return Standing(
            limit=self._most,
            remaining=self._most - window.used,
            resets_in_seconds=window.ends_at - now,
            admitted=admitted,
        )

    def _forget_ended(self, now: float) -> None:
        while self._windows and next(iter(self._windows.values())).ends_at <= now:
            self._windows.popitem(last=False)
