"""
Time, as the simulated provider lives it. The only file that reads a clock or waits.

Two clocks: one runs with the machine (perhaps faster), one stands still until it is told to move. Both only ever go
forward, and both can be started at a given instant, so that a world read back from its file does not fall into its own
past.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the simulator may ask of time."""

    def now(self) -> float:
        """The simulated instant, in unix seconds."""
        ...

    def watch(self) -> float:
        """Unix seconds by a client's own watch: what rate limits, call counts and Retry-After are measured by."""
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
        """Real time, whatever the speed: the client's watch is not sped up."""
        return self._wall + time.monotonic() - self._began

    def advance(self, seconds: float) -> None:
        """Jump forward; the clock then runs on from there."""
        self._start += max(0.0, seconds)


class SteppedClock:
    """Stands still between calls of `advance`, so that a test decides what happens before what."""

    # 2026-10-01T00:00:00Z: any recent instant would do; a fixed one makes stepped runs repeatable.
    EPOCH = 1_790_812_800.0

    def __init__(self, *, start: float | None = None) -> None:
        self._now = start or self.EPOCH

    def now(self) -> float:
        """The simulated instant."""
        return self._now

    def watch(self) -> float:
        """The simulated instant too: a client under test is stepped together with us."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward; a negative step is ignored."""
        self._now += max(0.0, seconds)


async def pause(seconds: float) -> None:
    """Wait *seconds* of real time: for faults that a client feels on its own watch, such as latency."""
    await asyncio.sleep(seconds)  # noqa: TID251  # the one place
