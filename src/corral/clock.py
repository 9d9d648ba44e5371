"""
Time, as an argument.

The only file that reads the clock or sleeps; everything else is handed a `Clock`, so that tests step time instead
of waiting for it.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the rest of the program may ask of time."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""
        ...


async def is_set_within(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for *event*, but no longer than *seconds*; answers whether it is set."""
    if event.is_set():
        return True
    told = asyncio.ensure_future(event.wait())
    slept = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({told, slept}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        slept.cancel()
    return event.is_set()


class FixedClock:
    """A clock that stands still, to show what was true at an instant that has passed."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        """The instant it stands at."""
        return self._at

    def monotonic(self) -> float:
        """Always the same: no time passes."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Raise RuntimeError: it would never return."""
        raise RuntimeError(f"a clock that stands still cannot sleep for {seconds} s")


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        return datetime.now(UTC)  # noqa: TID251  # the one place

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds* of real time."""
        await asyncio.sleep(seconds)  # noqa: TID251  # the one place
