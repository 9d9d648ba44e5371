"""The budget's state in this process alone: for a program without a database, and for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from corral.base.clock import Clock

Result = TypeVar("Result")


class LocalLedger:
    """A BudgetLedger that nobody shares, by the process's own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state: bytes | None = None

    async def revise(self, change: Callable[[bytes | None, float], tuple[bytes, Result]]) -> Result:
        """Replace the state by what *change* makes of it."""
        self._state, result = change(self._state, self._clock.now().timestamp())
        return result
