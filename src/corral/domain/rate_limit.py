"""
How many requests each caller may send.

A window begins with a caller's first request and lasts a fixed time, in which the caller may send a fixed number of
requests. Time is an argument (monotonic seconds). The number of callers is bounded: when there are too many, the oldest
windows are dropped and those callers start with a new window.

Several processes share their counts by `unshared` and `agree`: each adds what it admitted to a common count and
continues from that count. Between two exchanges each process admits on its own, so the total may exceed the limit.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import Final

MOST_CALLERS: Final = 10_000
"""About a megabyte. With fewer, many addresses without a key could push out each other's windows; keys always fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitState:
    """The state of a caller's window after one more request."""

    limit: int
    remaining: int
    resets_in_seconds: float
    admitted: bool


@dataclass(slots=True)
class _Window:
    ends_at: float
    used: int = 0


class RateLimit:
    """Admits *most* requests of each caller in every *window_seconds*."""

    def __init__(self, *, most: int, window_seconds: float, most_callers: int = MOST_CALLERS) -> None:
        self._most = most
        self.window_seconds = window_seconds
        self._most_callers = most_callers
        self._windows: OrderedDict[str, _Window] = OrderedDict()  # about in the order in which they end
        self._unshared: dict[str, int] | None = None
        """By caller, what was admitted since the last call of `unshared`; None before the first."""

    def take(self, caller: str, now: float) -> RateLimitState:
        """Count one request of *caller*; a request that is not admitted does not count."""
        self._forget_ended(now)
        window = self._windows.get(caller)
        if window is None or window.ends_at <= now:
            window = self._begin(caller, now + self.window_seconds)
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
        """Continue from the common count of *caller*: *used* requests in a window that ends in *resets_in_seconds*."""
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
