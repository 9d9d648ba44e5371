"""
One request limit for all processes: each adds what it admitted to a common count, once a second.

A request itself never waits for the database. What the processes admit between two exchanges may exceed the limit; in a
window of minutes that is a small part of it. While the database is away each process counts for itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.domain.errors import StoreUnavailableError
from corral.domain.rate_limit import RateLimit
from corral.store.session.database import Database
from corral.store.tables import request_counts

SHARE_EVERY_SECONDS: Final = 1.0
"""Shorter costs more statements, longer admits more beyond the limit."""
MOST_CALLERS: Final = 1000
"""Callers whose counts go into one statement. Keys are few; a crowd of addresses is shared over several seconds."""
SWEEP_EVERY: Final = 600
"""Exchanges between two sweeps of windows that have ended."""


class SharedRequestCounts:
    """Keeps the request limit of this process in step with those of the others."""

    def __init__(self, limit: RateLimit, database: Database, clock: Clock) -> None:
        self._limit = limit
        self._database = database
        self._clock = clock
        self._limit.unshared(0)  # from here on it is counted what is to be shared

    async def run(self) -> None:
        """Exchange counts until cancelled."""
        exchanges = 0
        while True:
            await self._clock.sleep(SHARE_EVERY_SECONDS)
            exchanges += 1
            try:
                await self.share()
                if exchanges % SWEEP_EVERY == 0:
                    async with self._database.connection() as connection:
                        await request_counts.sweep(connection)
            except StoreUnavailableError as error:
                log.warning("requests.unshared", reason=repr(error))

    async def share(self) -> None:
        """Add what was admitted since the last time, and go on from the sums."""
        counts = self._limit.unshared(MOST_CALLERS)
        if not counts:
            return
        window = timedelta(seconds=self._limit.window_seconds)
        async with self._database.connection() as connection:
            sums = await request_counts.add(connection, counts, window)
        now = self._clock.monotonic()
        for each in sums:
            self._limit.agree(each.caller, used=each.used, resets_in_seconds=each.resets_in_seconds, now=now)
