"""The rate limiter's state in memory, for tests without a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from corral.base.clock import Clock

Result = TypeVar("Result")


class MemoryRateLimitStore:
    """A RateLimitStore that one process uses, by its own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state: bytes | None = None

    async def revise(self, change: Callable[[bytes | None, float], tuple[bytes, Result]]) -> Result:
        """Replace the state by what *change* makes of it."""
        self._state, result = change(self._state, self._clock.now().timestamp())
        return result
