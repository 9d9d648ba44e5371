"""
One request limit for all processes: each adds the requests it admitted to a shared count, once a second.

A request itself never waits for the database. The processes may exceed the limit by what they admit between two
exchanges, a small part in a window of minutes. Without the database each process counts for itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.domain.errors import StoreUnavailableError
from corral.domain.rate_limit import RateLimit
from corral.store.installation import request_counts
from corral.store.session.database import Database

SHARE_EVERY_SECONDS: Final = 1.0
"""Shorter costs more statements, longer admits more beyond the limit."""
MOST_CALLERS: Final = 1000
"""Callers in one statement. Keys are few; the counts of many addresses are shared over several seconds."""
SWEEP_EVERY: Final = 600
"""Exchanges between two sweeps of windows that have ended."""


class SharedRequestCounts:
    """Shares the counts of this process's request limit with the other processes."""

    def __init__(self, limit: RateLimit, database: Database, clock: Clock) -> None:
        self._limit = limit
        self._database = database
        self._clock = clock
        self._limit.unshared(0)  # starts counting what is to be shared

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
        """Add what was admitted since the last call, and continue from the sums."""
        counts = self._limit.unshared(MOST_CALLERS)
        if not counts:
            return
        window = timedelta(seconds=self._limit.window_seconds)
        async with self._database.connection() as connection:
            sums = await request_counts.add(connection, counts, window)
        now = self._clock.monotonic()
        for each in sums:
            self._limit.agree(each.caller, used=each.used, resets_in_seconds=each.resets_in_seconds, now=now)
