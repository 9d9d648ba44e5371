"""
How often one caller may ask.

A window begins with a caller's first request and ends after a fixed time; in it the caller has so many requests. Time
is an argument (seconds that never run backwards). The callers remembered are bounded: when there are too many, those
whose windows began first are forgotten and may begin anew, which is the smaller harm.

Several processes share their counts by `unshared` and `agree`: each adds what it admitted to a common count, and
continues from there. Between two exchanges each admits on its own, so together they may admit that much more.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import Final

MOST_CALLERS: Final = 10_000
"""About a megabyte. Fewer, and a crowd of strangers makes room for itself; keys are few and always fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitState:
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
        self._windows: OrderedDict[str, _Window] = OrderedDict()  # about in the order in which they end
        self._unshared: dict[str, int] | None = None
        """By caller, what was admitted since the last call of `unshared`; None before the first."""

    @property
    def window_seconds(self) -> float:
        """How long a window is."""
        return self._window_seconds

    def take(self, caller: str, now: float) -> RateLimitState:
        """Count one request of *caller*; one that is not admitted uses nothing up."""
        self._forget_ended(now)
        window = self._windows.get(caller)
        if window is None or window.ends_at <= now:
            window = self._begin(caller, now + self._window_seconds)
        admitted = window.used < self._most
        window.used += admitted
        if admitted and self._unshared is not None and len(self._unshared) < self._most_callers:
            self._unshared[caller] = self._unshared.get(caller, 0) + 1
        return RateLimitState(
            limit=self._most,
            remaining=max(0, self._most - window.used),
            resets_in_seconds=window.ends_at - now,
            admitted=admitted,
        )

    def unshared(self, most: int) -> dict[str, int]:
        """By caller, what was admitted since it was last returned here; at most *most* callers, the rest later."""
        waiting = self._unshared or {}
        shared = dict(islice(waiting.items(), most))
        self._unshared = {caller: count for caller, count in waiting.items() if caller not in shared}
        return shared

    def agree(self, caller: str, *, used: int, resets_in_seconds: float, now: float) -> None:
        """Go on from the common count of *caller*: *used* requests in a window that ends in that time."""
        window = self._begin(caller, now + resets_in_seconds)
        window.used = used + (self._unshared or {}).get(caller, 0)

    def _begin(self, caller: str, ends_at: float) -> _Window:
        self._windows.pop(caller, None)
        if len(self._windows) >= self._most_callers:
            self._windows.popitem(last=False)
        window = self._windows[caller] = _Window(ends_at)
        return window

    def _forget_ended(self, now: float) -> None:
        while self._windows and next(iter(self._windows.values())).ends_at <= now:
            self._windows.popitem(last=False)
