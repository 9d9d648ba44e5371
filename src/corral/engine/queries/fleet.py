"""
Numbers of the whole fleet, also as metrics, the same in every process: read from the database, cached for a second.

Nothing is sampled: the present is counted, and the past is computed from usage and the times to ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from corral.base.clock import Clock
from corral.base.metrics import MetricFamily, blank
from corral.cache.cache import Cache
from corral.cloud.guarded import Reachability
from corral.cloud.rate_limit import state as rate_limit_state
from corral.cloud.rate_limit.rate_limiter import RateLimiter
from corral.domain.costs.totals import Cost, dollars
from corral.domain.errors import StoreUnavailableError
from corral.jobs.queue import Backlog, JobQueue
from corral.store.installation.rate_limit import DatabaseRateLimitStore
from corral.store.session.database import Database
from corral.store.tables.costs.totals import by_step
from corral.store.tables.fleet import counts, ready_times
from corral.store.tables.fleet.counts import FleetCount
from corral.store.tables.fleet.ready_times import Quantiles, ReadyTimes

NUMBERS_SECONDS: Final = 1.0
"""Scrapes, dashboards and scripts may read in the same second; the database is read once."""
HISTORY_SECONDS: Final = 30.0
"""A month of a large fleet takes seconds to add up (measured: 3 s for 630,000 events, 35 ms for a day of them)."""
POINTS: Final = 60
MOST_HOURS: Final = 720
MINUTE: Final = 60
HOUR: Final = timedelta(hours=1)

_NO_TIMES = ReadyTimes(count=0, whole=Quantiles(None, None), lag=Quantiles(None, None))

_INSTANCES = MetricFamily("corral_instances", "gauge", "Instances of the whole fleet, by status.", ("status",))
_JOBS = MetricFamily("corral_jobs_waiting", "gauge", "Jobs not finished, of all workers, by status.", ("status",))
_COST = MetricFamily("corral_usd_per_hour", "gauge", "What everything that runs costs an hour, in USD.")
_QUEUE_AGE = MetricFamily(
    "corral_queue_oldest_pending_seconds", "gauge", "How long the oldest job that could run has waited to; 0: none."
)
_WEBHOOKS = MetricFamily("corral_webhooks_pending", "gauge", "Webhook messages their receivers have not taken yet.")
_OUTBOX_AGE = MetricFamily("corral_outbox_oldest_pending_seconds", "gauge", "How old the oldest of them is; 0: none.")
_FAILED = MetricFamily("corral_webhooks_failed_last_day", "gauge", "Webhook messages given up within the last day.")
_BUDGET = MetricFamily("corral_provider_budget_per_minute", "gauge", "Calls a minute the provider may be asked.")
_CALLS = MetricFamily(
    "corral_provider_calls_last_minute", "gauge", "Calls allowed within the last minute, by all processes together."
)
_LOOK_AGE = MetricFamily(
    "corral_last_look_age_seconds", "gauge", "How long ago the provider's whole list was last read; absent: never."
)
_ORPHANS = MetricFamily("corral_orphans", "gauge", "Provider instances that carry our mark and belong to no record.")

FAMILIES: Final = (
    _INSTANCES, _JOBS, _COST, _QUEUE_AGE, _WEBHOOKS, _OUTBOX_AGE, _FAILED, _BUDGET, _CALLS, _LOOK_AGE, _ORPHANS
)  # fmt: skip


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
            count = await counts.count(connection, now)
            ready = await ready_times.recent(connection, now - counts.LATELY)
        backlog, (raw, instant) = await asyncio.gather(self._queue.backlog(), self._rate_limit_store.read())
        state = self._rate_limiter.at(rate_limit_state.decoded(raw, instant), instant)
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
            cost = await by_step(connection, since=after, until=until, step=step, now=until)
            ready = await ready_times.by_step(connection, after=after, until=until, step=step)
        points = (
            HistoryPoint(
                until=after + step * number,
                micro_usd=float(cost.get(number - 1, Cost()).usd) * (HOUR / step),
                ready=ready.get(number, _NO_TIMES),
            )
            for number in range(1, POINTS + 1)
        )
        return History(after=after, step=step, points=tuple(points))


class FleetGauges(Collector):
    """Register it with the metrics' registry, and `refresh` it before each scrape."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._numbers: FleetNumbers | None = None

    async def refresh(self) -> None:
        """Read the numbers; without a database the next scrape leaves them out."""
        try:
            self._numbers = await self._fleet.numbers()
        except StoreUnavailableError:
            self._numbers = None

    def collect(self) -> Iterable[Metric]:
        """Every number as last read."""
        if (numbers := self._numbers) is None:
            return []
        count, backlog = numbers.count, numbers.backlog
        looked = None if count.looked_at is None else (numbers.at - count.looked_at).total_seconds()
        return [
            _filled(_INSTANCES, [([phase.value], n) for phase, n in count.instances.items()]),
            _filled(_JOBS, [([status.value], n) for status, n in backlog.by_status.items()]),
            _filled(_COST, [([], dollars(count.micro_usd))]),
            _filled(_QUEUE_AGE, [([], _seconds(backlog.oldest_pending_age))]),
            _filled(_WEBHOOKS, [([], count.webhooks_pending)]),
            _filled(_OUTBOX_AGE, [([], _seconds(count.oldest_webhook_age))]),
            _filled(_FAILED, [([], count.webhooks_failed)]),
            _filled(_BUDGET, [([], numbers.calls_per_minute)]),
            _filled(_CALLS, [([], numbers.calls_last_minute)]),
            _filled(_LOOK_AGE, [] if looked is None else [([], max(looked, 0.0))]),
            _filled(_ORPHANS, [([], count.orphans)]),
        ]


def _filled(family: MetricFamily, rows: Sequence[tuple[list[str], float]]) -> Metric:
    metric = blank(family)
    for labels, value in rows:
        metric.add_metric(labels, value)
    return metric


def _seconds(age: timedelta | None) -> float:
    return 0.0 if age is None else age.total_seconds()
