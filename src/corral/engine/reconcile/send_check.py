"""The last check before a create call is sent: whether it is still wanted, and not too old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from corral.base.clock import Clock
from corral.domain.errors import CloudTransientError, StaleError


class SendCheck:
    """
    Raises unless a create call may still be sent. Make it before the intent of the call is written.

    A process can be paused (SIGSTOP, a suspended host) at any point, and other workers give its call up meanwhile. The
    monotonic clock covers a paused process. The service's clock also covers a suspended host, whose monotonic clock
    stops, and the machine's wall clock a virtual machine that was paused and whose clock was set afterwards.
    """

    def __init__(self, clock: Clock, limit: timedelta, is_unchanged: Callable[[], Awaitable[bool]]) -> None:
        self._clock = clock
        self._limit = limit
        self._is_unchanged = is_unchanged
        self._deadline = clock.monotonic() + limit.total_seconds()
        self._latest = clock.now() + limit
        self._latest_by_wall = clock.wall() + limit
        self.passed = False
        """Whether the call may have been sent."""

    @property
    def seconds_left(self) -> float:
        """How long the call may still take, waiting included."""
        left = min(self._latest - self._clock.now(), self._latest_by_wall - self._clock.wall())
        return min(self._deadline - self._clock.monotonic(), left.total_seconds())

    async def __call__(self) -> None:
        """Raise StaleError if the record changed since the intent, CloudTransientError if the time is over."""
        if not await self._is_unchanged():
            raise StaleError("the instance was changed while its create call waited to be sent")
        # The time is checked last: the process may have been paused while the database was asked.
        if self.seconds_left <= 0:
            raise CloudTransientError(
                f"the create call was not sent within {self._limit.total_seconds():.0f} s of its record; it is repeated"
            )
        self.passed = True
