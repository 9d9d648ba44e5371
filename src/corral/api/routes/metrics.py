"""The fleet in numbers, for people and scripts; Prometheus reads `/metrics`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from corral.api.middleware.auth import VIEWER
from corral.cache.registry import CacheRegistry
from corral.domain.lifecycle.tables import Phase
from corral.domain.placement.catalog import MICRO_USD
from corral.domain.placement.pricing import usd
from corral.domain.timestamps import iso
from corral.engine.queries.fleet import MOST_HOURS, Fleet, FleetNumbers, History
from corral.jobs.queue import JobStatus
from corral.store.tables.ready_times import Quantiles
from corral.views.metric_schemas import (
    CacheShare,
    Durations,
    HistoryStep,
    InstanceNumbers,
    MetricsHistory,
    MetricsSummary,
    ProviderNumbers,
    QueueNumbers,
    WebhookNumbers,
)

HOUR = timedelta(hours=1)


def handlers(fleet: Fleet, book: CacheRegistry, *, ready_word: str) -> list[HTTPRouteHandler]:
    """The routes of `/api/metrics`."""

    @get("/api/metrics", summary="The fleet in numbers", tags=["metrics"], opt=VIEWER)
    async def metrics_summary() -> MetricsSummary:
        """Counted over all processes, at most a second ago."""
        return _summary(await fleet.numbers(), fleet, book, ready_word)

    @get("/api/metrics/history", summary="Cost and time to ready over the last hours", tags=["metrics"], opt=VIEWER)
    async def metrics_history(
        hours: Annotated[int, QueryParameter(ge=1, le=MOST_HOURS, description="How far back.")] = 24,
    ) -> MetricsHistory:
        """Sixty equal steps up to now. Follows from the event log, so it is complete also after an outage of Corral."""
        return _history(await fleet.history(hours))

    return [metrics_summary, metrics_history]


def _summary(numbers: FleetNumbers, fleet: Fleet, book: CacheRegistry, ready_word: str) -> MetricsSummary:
    count, backlog = numbers.count, numbers.backlog
    by_status: dict[str, int] = {}
    for phase, instances in count.instances.items():
        word = ready_word if phase is Phase.READY else phase.value
        by_status[word] = by_status.get(word, 0) + instances
    return MetricsSummary(
        timestamp=iso(numbers.at),
        instances=InstanceNumbers(total=sum(by_status.values()), by_status=by_status),
        usd_per_hour=usd(count.micro_usd),
        time_to_ready=_spread(numbers.ready.whole),
        readiness_lag=_spread(numbers.ready.lag),
        queue=QueueNumbers(
            pending=backlog.by_status[JobStatus.PENDING],
            processing=backlog.by_status[JobStatus.PROCESSING],
            failed=backlog.by_status[JobStatus.FAILED],
            oldest_pending_age_ms=_milliseconds(backlog.oldest_pending_age),
        ),
        webhooks=WebhookNumbers(
            pending=count.webhooks_pending,
            oldest_age_ms=_milliseconds(count.oldest_webhook_age),
            failed_24h=count.webhooks_failed,
        ),
        provider=ProviderNumbers(
            breaker=fleet.reachability().breaker,
            budget_per_minute=numbers.calls_per_minute,
            calls_last_minute=numbers.calls_last_minute,
        ),
        caches={
            name.value: CacheShare(hit_ratio=round(stats.hit_ratio, 4), size=stats.size)
            for name, stats in ((name, cache.stats()) for name, cache in book)
        },
    )


def _history(history: History) -> MetricsHistory:
    points = [
        HistoryStep(
            at=iso(point.until),
            usd_per_hour=round(point.micro_usd / MICRO_USD, 6),
            became_ready=point.ready.count,
            time_to_ready=_spread(point.ready.whole),
            readiness_lag=_spread(point.ready.lag),
        )
        for point in history.points
    ]
    spent = sum(point.micro_usd for point in history.points) * (history.step / HOUR)
    return MetricsHistory(
        since=iso(history.after),
        step_seconds=history.step.total_seconds(),
        usd=round(spent / MICRO_USD, 6),
        points=points,
    )


def _spread(quantiles: Quantiles) -> Durations:
    return Durations(p50_ms=_milliseconds(quantiles.p50), p90_ms=_milliseconds(quantiles.p90))


def _milliseconds(span: timedelta | None) -> int | None:
    return None if span is None else round(span / timedelta(milliseconds=1))
