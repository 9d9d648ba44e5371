"""
Time, as an argument.

The only file that reads the clock or sleeps; everything else gets a `Clock`, so that tests step time instead of
waiting for it.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

MOST_SKEW: Final = timedelta(seconds=2)
"""How far the clock in use may be from the database's before it is corrected. Smaller, and the time a
statement takes counts as a difference; larger, and processes disagree on deadlines, some of which are seconds."""
MOST_SAMPLE: Final = timedelta(seconds=1)
"""A reading of the database's clock that took longer is too inaccurate."""
_SINCE_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux stops CLOCK_MONOTONIC while the host is suspended and has CLOCK_BOOTTIME; macOS does not stop it."""


class Clock(Protocol):
    """Time, as the rest of the program uses it."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        ...

    def wall(self) -> datetime:
        """The machine's own clock, uncorrected: it jumps when it is set. For limits that may end early, never late."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""
        ...


async def is_set_within(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for *event*, but no longer than *seconds*; returns whether it is set."""
    if event.is_set():
        return True
    waiting = asyncio.ensure_future(event.wait())
    slept = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({waiting, slept}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        slept.cancel()
    return event.is_set()


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        return self.wall()

    def wall(self) -> datetime:
        """The same."""
        return datetime.now(UTC)  # noqa: TID251  # the one place

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    def since_boot(self) -> float:
        """Seconds that never run backwards and also pass while the host is suspended."""
        return time.clock_gettime(_SINCE_BOOT)

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds* of real time."""
        await asyncio.sleep(seconds)  # noqa: TID251  # the one place


class SharedClock(SystemClock):
    """
    The database's clock, as this process knows it: its own to begin with, corrected whenever the two are compared.

    Deadlines are written by one process and judged by another. With one process an hour ahead, every new instance would
    be past its deadline at once. All processes on one database share its clock, so they agree.

    Between two comparisons time advances by the seconds since boot, never by the machine's clock: setting that clock,
    ahead or back, has no effect here until the database's clock shows it too.
    """

    def __init__(self) -> None:
        self._anchor = self.wall(), self.since_boot()
        self._reported = timedelta(0)

    @property
    def ahead(self) -> timedelta:
        """How far this machine's clock was ahead of the one in use when last compared; zero while it is right."""
        return self._reported if abs(self._reported) > MOST_SKEW else timedelta(0)

    def now(self) -> datetime:
        """The present instant, in UTC."""
        at, since_boot = self._anchor
        return at + timedelta(seconds=self.since_boot() - since_boot)

    def compare(self, *, asked: datetime, reference: datetime, answered: datetime) -> bool:
        """
        Correct by *reference*, the database's clock, read between *asked* and *answered* by this clock.

        A difference within MOST_SKEW changes nothing, so that time does not jitter. Returns whether time changed, or
        the machine's clock was set.
        """
        took = answered - asked
        if not timedelta(0) <= took <= MOST_SAMPLE:
            return False
        off = reference - (asked + took / 2)
        is_off = abs(off) > MOST_SKEW
        if is_off:
            self._anchor = self.now() + off, self.since_boot()
        ahead = self.wall() - self.now()
        is_set = abs(ahead - self._reported) > MOST_SKEW
        if is_set:
            self._reported = ahead
        return is_off or is_set
