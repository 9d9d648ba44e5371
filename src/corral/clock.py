"""
Time, as an argument.

The only file that reads the clock or sleeps; everything else is handed a `Clock`, so that tests step time instead
of waiting for it.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

MOST_SKEW: Final = timedelta(seconds=2)
"""How far this machine's clock may be from the database's before the database's is used. Smaller, and the time a
statement takes counts as a difference; larger, and processes disagree on deadlines, some of which are seconds."""
MOST_SAMPLE: Final = timedelta(seconds=1)
"""A reading of the database's clock that took longer says too little."""


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


class SharedClock(SystemClock):
    """
    The machine's clock, corrected by the database's where they differ by more than MOST_SKEW.

    Deadlines are written by one process and judged by another. With one process an hour ahead, every new instance would
    be past its deadline at once. All processes on one database share its clock, so they agree.

    A clock that is set back is noticed at once, by the monotonic clock: a request accepted before the next comparison
    would be past its deadline right after it. One that is set ahead cannot be told from a host that was suspended.
    """

    def __init__(self) -> None:
        self._correction = timedelta(0)
        self._last = super().now(), self.monotonic()

    @property
    def ahead(self) -> timedelta:
        """How far this machine's clock is ahead of the one in use; zero while it is right."""
        return -self._correction

    def now(self) -> datetime:
        """The present instant, in UTC."""
        wall, monotonic = super().now(), self.monotonic()
        last_wall, last_monotonic = self._last
        self._last = wall, monotonic
        set_back_by = last_wall + timedelta(seconds=monotonic - last_monotonic) - wall
        if set_back_by > MOST_SKEW:
            self._correction += set_back_by
        return wall + self._correction

    def compare(self, *, asked: datetime, reference: datetime, answered: datetime) -> bool:
        """
        Correct by *reference*, read between *asked* and *answered* by this clock; returns whether time changed.

        A difference within MOST_SKEW of the present correction changes nothing, so that time does not jitter.
        """
        took = answered - asked
        if not timedelta(0) <= took <= MOST_SAMPLE:
            return False
        off = reference - (asked + took / 2)
        if abs(off) <= MOST_SKEW:
            return False
        correction = self._correction + off
        self._correction = correction if abs(correction) > MOST_SKEW else timedelta(0)
        return True
