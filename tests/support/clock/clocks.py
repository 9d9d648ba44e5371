"""A clock that moves only on request."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class SteppedClock:
    """Time as the test sets it; sleepers wake when it is advanced past their hour."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._wall_ahead = timedelta(0)
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def wall(self) -> datetime:
        return self._now + self._wall_ahead

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._elapsed + seconds, sleeper))
        await sleeper

    @property
    def sleeping(self) -> int:
        """How many sleep now."""
        return len(self._sleepers)

    def set_by(self, seconds: float) -> None:
        """Put the hands elsewhere; no time passes by that."""
        self._now += timedelta(seconds=seconds)

    def set_wall_by(self, seconds: float) -> None:
        """Set the machine's own clock; the one in use was not compared with the database's yet."""
        self._wall_ahead += timedelta(seconds=seconds)

    def advance(self, seconds: float) -> None:
        """Advance, and wake sleepers that are due."""
        self._elapsed += seconds
        self._now += timedelta(seconds=seconds)
        due = [sleeper for hour, sleeper in self._sleepers if hour <= self._elapsed]
        self._sleepers = [entry for entry in self._sleepers if entry[0] > self._elapsed]
        for sleeper in due:
            if not sleeper.done():
                sleeper.set_result(None)
