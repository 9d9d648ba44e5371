"""A clock that runs ahead by itself: whenever nothing else can happen, it jumps to the next sleeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from support.clock.clocks import SteppedClock

IDLE_TURNS = 12
"""Turns of the event loop without a request under way after which everything that could run has run."""


class RacingClock(SteppedClock):
    """Simulated hours in real milliseconds; *also* hears of each step, so that another clock can keep up."""

    def __init__(self, *, also: Callable[[float], object] = lambda _: None) -> None:
        super().__init__()
        self._also = also

    def advance(self, seconds: float) -> None:
        self._also(seconds)
        super().advance(seconds)

    @asynccontextmanager
    async def racing(self, *, is_busy: Callable[[], bool] = lambda: False) -> AsyncGenerator[None]:
        """Run ahead for the length of the block, but not while *is_busy*."""
        task = asyncio.create_task(self._race(is_busy))
        try:
            yield
        finally:
            task.cancel()

    async def _race(self, is_busy: Callable[[], bool]) -> None:
        idle = 0
        while True:
            await asyncio.sleep(0)  # noqa: TID251  # gives way, does not wait
            self._sleepers = [entry for entry in self._sleepers if not entry[1].done()]
            idle = 0 if is_busy() or not self._sleepers else idle + 1
            if idle > IDLE_TURNS:
                idle = 0
                self.advance(max(0.0, min(hour for hour, _ in self._sleepers) - self._elapsed))
