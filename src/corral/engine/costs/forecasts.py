"""What is billed now and where that leads; equal questions within seconds are answered once."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.domain.budgets.budget import Budget, resets_at
from corral.domain.costs.forecast import BudgetForecast, CostForecast, exhausted_at, month_of
from corral.store.session.database import Connection, Database
from corral.store.tables.costs import budgets
from corral.store.tables.costs.billed_now import billed_now
from corral.store.tables.costs.totals import total_cost

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
            so_far = await total_cost(connection, since=month.starts_at, until=now, now=now)
            ends = [await self._budget(connection, each, now) for each in await budgets.load_all(connection)]
        return CostForecast(at=now, causes=tuple(causes), month=month, so_far=so_far, budgets=tuple(ends))

    async def _budget(self, connection: Connection, budget: Budget, now: datetime) -> BudgetForecast:
        """What is reserved is not counted: it is no cost yet."""
        found = await budgets.count(connection, budget, now)
        per_hour = Fraction(found.hourly)
        left = Fraction(budget.limit_micro_usd - found.spent)
        ends = exhausted_at(left, per_hour=per_hour, now=now, resets_at=resets_at(budget.period, now))
        return BudgetForecast(name=budget.name, per_hour=per_hour, exhausted_at=ends)
