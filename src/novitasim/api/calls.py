"""
Call counts by call and status, the busiest minute, and the rate limit.

Minutes slide: the busiest one is the largest number of calls in any 60 seconds, which is what a budget promises.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

_MINUTE = 60.0


@dataclass(slots=True)
class _Window:
    """The calls of the last minute, and the most there ever were."""

    instants: deque[float] = field(default_factory=deque[float])
    total: int = 0
    most: int = 0

    def add(self, at: float) -> None:
        self.expire(at)
        self.instants.append(at)
        self.total += 1
        self.most = max(self.most, len(self.instants))

    def expire(self, at: float) -> None:
        while self.instants and self.instants[0] <= at - _MINUTE:
            self.instants.popleft()


class Calls:
    """The tally."""

    def __init__(self) -> None:
        self._all = _Window()
        self._by_endpoint: defaultdict[str, _Window] = defaultdict(_Window)
        self._statuses: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._admitted = _Window()
        self._last_paced = -math.inf

    def arrived(self, endpoint: str, at: float) -> None:
        """A call came in."""
        self._all.add(at)
        self._by_endpoint[endpoint].add(at)

    def ended(self, endpoint: str, outcome: str) -> None:
        """A call was answered with a status, or ended in a fault without one."""
        self._statuses[endpoint][outcome] += 1

    def admit(self, at: float, limit: int) -> int | None:
        """None if the limit allows this call (it then counts); else the seconds until it would."""
        self._admitted.expire(at)
        instants = self._admitted.instants
        if limit and len(instants) >= limit:
            return max(1, math.ceil(instants[len(instants) - limit] + _MINUTE - at))
        self._admitted.add(at)
        return None

    def is_too_fast(self, at: float, interval: float) -> bool:
        """Whether a paced call follows the last admitted one by less than *interval* seconds; counts it if not."""
        if at - self._last_paced < interval:
            return True
        self._last_paced = at
        return False

    def report(self) -> dict[str, object]:
        """All counts, as JSON."""
        return {
            "total": self._all.total,
            "busiest_minute": self._all.most,
            "endpoints": {
                endpoint: {
                    "total": window.total,
                    "busiest_minute": window.most,
                    "outcomes": dict(self._statuses[endpoint]),
                }
                for endpoint, window in sorted(self._by_endpoint.items())
            },
        }
