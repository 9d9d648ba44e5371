"""
The simulated provider's time. The only file that reads a clock or waits.

Two clocks: one runs with the machine (perhaps faster), one moves only when `advance` is called. Both only move forward,
and both can start at a given instant, so that a world read from its file does not return to its own past.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the simulator needs of a clock."""

    def now(self) -> float:
        """The simulated instant, in unix seconds."""
        ...

    def watch(self) -> float:
        """Unix seconds by the client's clock, by which rate limits, call counts and Retry-After are measured."""
        ...

    def advance(self, seconds: float) -> None:
        """Move the simulated instant forward by *seconds* at once."""
        ...


class RunningClock:
    """Runs with the machine, *speed* times as fast, from *start* (default: the present)."""

    def __init__(self, *, speed: float = 1.0, start: float | None = None) -> None:
        self._speed = speed
        self._began = time.monotonic()
        self._wall = time.time()
        self._start = max(self._wall, start or 0.0)

    def now(self) -> float:
        """The simulated instant."""
        return self._start + (time.monotonic() - self._began) * self._speed

    def watch(self) -> float:
        """Real time at any speed: the client's clock is not accelerated."""
        return self._wall + time.monotonic() - self._began

    def advance(self, seconds: float) -> None:
        """Jump forward; the clock then continues from there."""
        self._start += max(0.0, seconds)


class SteppedClock:
    """Moves only on `advance`, so that a test decides the order of events."""

    # 2026-10-01T00:00:00Z: any recent instant would do; a fixed one makes stepped runs repeatable.
    EPOCH = 1_790_812_800.0

    def __init__(self, *, start: float | None = None) -> None:
        self._now = start or self.EPOCH

    def now(self) -> float:
        """The simulated instant."""
        return self._now

    def watch(self) -> float:
        """The simulated instant too: a client under test is stepped together with the simulator."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward; a negative step is ignored."""
        self._now += max(0.0, seconds)


async def pause(seconds: float) -> None:
    """Wait *seconds* of real time: for faults that a client measures by its own clock, such as latency."""
    await asyncio.sleep(seconds)  # noqa: TID251  # the one place
