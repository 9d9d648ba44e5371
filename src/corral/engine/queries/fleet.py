"""
Numbers of the whole fleet, the same in every process: read from the database and cached for a second.

Nothing is sampled: the present is counted, and the past is computed from the event log and the times to ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cloud import rate_limiter
from corral.cloud.guarded import Reachability
from corral.cloud.rate_limiter import RateLimiter
from corral.jobs.queue import Backlog, JobQueue
from corral.store.installation.rate_limit import DatabaseRateLimitStore
from corral.store.session.database import Database
from corral.store.tables import fleet, ready_times
from corral.store.tables.fleet import FleetCount
from corral.store.tables.ready_times import Quantiles, ReadyTimes

NUMBERS_SECONDS: Final = 1.0
"""Scrapes, dashboards and scripts may read in the same second; the database is read once."""
HISTORY_SECONDS: Final = 30.0
"""A month of a large fleet takes seconds to add up (measured: 3 s for 630,000 events, 35 ms for a day of them)."""
POINTS: Final = 60
MOST_HOURS: Final = 720
MINUTE: Final = 60

_NO_TIMES = ReadyTimes(count=0, whole=Quantiles(None, None), lag=Quantiles(None, None))


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNumbers:
    """The fleet at one moment."""

    at: datetime
    count: FleetCount
    backlog: Backlog
    ready: ReadyTimes
    """Of the last day."""
    calls_per_minute: int
    """The provider calls a minute that all processes together may make."""
    calls_last_minute: int
    """The calls of the last minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """One step of the past."""

    until: datetime
    micro_usd: float
    """The average cost of the fleet per hour during the step."""
    ready: ReadyTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Some hours, in equal steps, oldest first."""

    after: datetime
    step: timedelta
    points: tuple[HistoryPoint, ...]


class Fleet:
    """Reads numbers of the fleet; *reachability* is how this process reaches the provider."""

    def __init__(
        self,
        database: Database,
        queue: JobQueue,
        *,
        calls_a_minute: int | None,
        reachability: Callable[[], Reachability],
        clock: Clock,
    ) -> None:
        self.reachability = reachability
        self._database = database
        self._queue = queue
        self._rate_limit_store = DatabaseRateLimitStore(database)
        self._rate_limiter = RateLimiter(calls_a_minute)
        self._clock = clock
        self._numbers: Cache[FleetNumbers] = Cache(ttl_seconds=NUMBERS_SECONDS, most_entries=1, clock=clock)
        self._histories: Cache[History] = Cache(ttl_seconds=HISTORY_SECONDS, most_entries=16, clock=clock)

    async def numbers(self) -> FleetNumbers:
        """The fleet now, or up to a second ago; raises StoreUnavailableError."""
        return await self._numbers.get("now", self._count)

    async def history(self, hours: int) -> History:
        """The last *hours*; raises StoreUnavailableError."""
        return await self._histories.get(str(hours), lambda: self._look_back(timedelta(hours=hours)))

    async def _count(self) -> FleetNumbers:
        now = self._clock.now()
        async with self._database.connection() as connection:
            count = await fleet.count(connection, now)
            ready = await ready_times.recent(connection, now - fleet.LATELY)
        backlog, (raw, instant) = await asyncio.gather(self._queue.backlog(), self._rate_limit_store.read())
        state = self._rate_limiter.at(rate_limiter.decoded(raw, instant), instant)
        return FleetNumbers(
            at=now,
            count=count,
            backlog=backlog,
            ready=ready,
            calls_per_minute=self._rate_limiter.limit(state),
            calls_last_minute=sum(state.counts[-MINUTE:]),
        )

    async def _look_back(self, span: timedelta) -> History:
        until = self._clock.now()
        after, step = until - span, span / POINTS
        async with self._database.connection() as connection:
            cost = await fleet.cost_by_step(connection, after=after, until=until, step=step, steps=POINTS)
            ready = await ready_times.by_step(connection, after=after, until=until, step=step)
        points = (
            HistoryPoint(until=after + step * number, micro_usd=micro_usd, ready=ready.get(number, _NO_TIMES))
            for number, micro_usd in enumerate(cost, start=1)
        )
        return History(after=after, step=step, points=tuple(points))
