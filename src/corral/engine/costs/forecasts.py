"""What is billed now and where that leads; equal questions within seconds are answered once."""

from __future__ import annotations

from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.domain.costs.forecast import CostForecast, month_of
from corral.domain.costs.totals import Cost
from corral.store.session.database import Database
from corral.store.tables.costs.billed_now import billed_now
from corral.store.tables.costs.totals import totals

CACHED_SECONDS: Final = 1.0
"""As long as other sums of costs: a page reads the forecast and the account, which needs the same numbers, at once."""


class CostForecasts:
    """Forecasts costs."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._forecasts: Cache[CostForecast] = Cache(ttl_seconds=CACHED_SECONDS, most_entries=1, clock=clock)

    async def current(self) -> CostForecast:
        """What is billed now and in this month; raises StoreUnavailableError."""
        return await self._forecasts.get("now", self._read)

    async def _read(self) -> CostForecast:
        now = self._clock.now()
        month = month_of(now)
        async with self._database.connection() as connection:
            causes = await billed_now(connection, now)
            spent = await totals(connection, since=month.starts_at, until=now, now=now)
        so_far = sum((group.cost for group in spent), Cost())
        return CostForecast(at=now, causes=tuple(causes), month=month, so_far=so_far)
