"""When the account is listed: soon while the provider is to act, within a share of the rate limit and of CPU time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from corral.base.clock import Clock
from corral.domain.lifecycle.policy import Policy

SHARE_OF_LIMIT: Final = 0.5
"""At most this share of the rate limit is used for listings; the rest is for commands."""
HANGING_INTERVALS: Final = 3
"""A listing hangs if it takes so many times as long as its share of the rate limit allows, and ten seconds more. Fewer,
and a busy rate limit counts as that; more, and instances that change are looked up one by one for longer."""
REST: Final = 2.0
LONGEST_REST_SECONDS: Final = 8.0
"""After a listing the observer pauses for twice as long as it took, up to so many seconds: comparing thousands of
instances every two seconds would take more CPU time than the reconciles that follow."""


@dataclass(kw_only=True)
class ListingSchedule:
    """When to list next; times are by the monotonic clock."""

    clock: Clock
    policy: Policy
    idle_interval: timedelta
    calls_per_minute: Callable[[], int]
    due: float = field(default=0.0, init=False)
    all_due: float = field(default=0.0, init=False)
    """When all pages are read again, also if the newest is enough to see what changes."""
    pages: int = field(default=1, init=False)
    """Of the last listing of all pages."""
    _not_before: float = field(default=0.0, init=False)
    _began: float | None = field(default=None, init=False)
    """When the listing of all pages that is under way began."""
    _cycle_seconds: float = field(default=0.0, init=False)
    """From the beginning of the last listing to that of the next."""

    def restart(self) -> None:
        """List at once."""
        self.due = self.all_due = self.clock.monotonic()

    @contextmanager
    def listing(self) -> Generator[None]:
        """A listing of all pages is under way."""
        self._began = self.clock.monotonic()
        try:
            yield
        finally:
            self._began = None

    @property
    def is_listing(self) -> bool:
        """Whether a listing of all pages is under way."""
        return self._began is not None

    def after_page(self, began: float, *, is_awaited: bool) -> None:
        """Set when to read again after only the newest page was read; *is_awaited*: the provider is to act."""
        self._set_due(began, pages=1, is_awaited=is_awaited)
        self.due = min(self.due, self.all_due)

    def after_listing(self, began: float, *, is_awaited: bool) -> None:
        """The same after all pages were read."""
        self._set_due(began, pages=self.pages, is_awaited=is_awaited)
        self.all_due = began + max(self.idle_interval.total_seconds(), self.due - began)
        self._cycle_seconds = max(self.due, self.clock.monotonic()) - began

    def soonest(self) -> float:
        """When the next listing may begin."""
        return max(self.clock.monotonic() + self.policy.poll.total_seconds(), self._not_before)

    def is_slow(self) -> bool:
        """Whether listings take too long or are too far apart to wait for the next."""
        return max(self._lasting(), self._affordable_interval(self.pages)) >= self.policy.slow_listing.total_seconds()

    def is_hanging(self) -> bool:
        """Whether the listing under way has lasted so long that its pages may never come."""
        limit = self.policy.slow_listing.total_seconds() + HANGING_INTERVALS * self._affordable_interval(self.pages)
        return self._lasting() >= limit

    def cycle_seconds(self) -> float:
        """The time in which every page is read."""
        return max(self._cycle_seconds, self._lasting())

    def _set_due(self, began: float, *, pages: int, is_awaited: bool) -> None:
        now = self.clock.monotonic()
        rest = min((now - began) * REST, LONGEST_REST_SECONDS)
        self._not_before = max(began + self._affordable_interval(pages), now + rest)
        interval = self.policy.poll if is_awaited else self.idle_interval
        self.due = max(began + interval.total_seconds(), self._not_before)

    def _lasting(self) -> float:
        """For how many seconds the listing under way has lasted; 0 if there is none."""
        return 0.0 if self._began is None else self.clock.monotonic() - self._began

    def _affordable_interval(self, pages: int) -> float:
        """The seconds between listings of *pages* pages that their share of the rate limit allows."""
        return pages * 60 / (self.calls_per_minute() * SHARE_OF_LIMIT)
