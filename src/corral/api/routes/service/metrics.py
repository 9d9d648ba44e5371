"""The fleet in numbers, for people and scripts; Prometheus reads `/metrics`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from corral.api.middleware.auth import VIEWER
from corral.cloud.breaker import BreakerState
from corral.domain.costs.totals import dollars
from corral.domain.placement.catalog import MICRO_USD
from corral.domain.timing import iso
from corral.engine.engine import Engine
from corral.engine.queries.fleet import MOST_HOURS, FleetNumbers, History
from corral.jobs.queue import JobStatus
from corral.store.tables.fleet.ready_times import Quantiles

HOUR = timedelta(hours=1)


class Durations(msgspec.Struct, rename={"p50_ms": "p50Ms", "p90_ms": "p90Ms"}):
    """How long something took."""

    p50_ms: Annotated[int | None, Meta(description="Half took at most this, in milliseconds.", examples=[41200])]
    p90_ms: Annotated[int | None, Meta(description="Nine in ten took at most this.", examples=[87500])]


class InstanceNumbers(msgspec.Struct, rename="camel"):
    """The instances in numbers."""

    total: Annotated[int, Meta(description="All instances, also terminated ones.", examples=[12])]
    by_status: Annotated[
        dict[str, int], Meta(description="How many, of every status.", examples=[{"ready": 9, "starting": 3}])
    ]


class QueueNumbers(msgspec.Struct, rename="camel"):
    """The queue in numbers."""

    pending: Annotated[int, Meta(description="Jobs that wait, also for a later time.", examples=[3])]
    processing: Annotated[int, Meta(description="Jobs that run.", examples=[1])]
    failed: Annotated[int, Meta(description="Jobs that failed for good and are still listed.", examples=[0])]
    oldest_pending_age_ms: Annotated[
        int | None, Meta(description="How long the oldest job that could run has waited to.", examples=[12])
    ]


class WebhookNumbers(msgspec.Struct, rename={"oldest_age_ms": "oldestAgeMs", "failed_24h": "failed24h"}):
    """The outbox in numbers."""

    pending: Annotated[int, Meta(description="Messages not yet taken by their receivers.", examples=[0])]
    oldest_age_ms: Annotated[int | None, Meta(description="How old the oldest of them is.", examples=[850])]
    failed_24h: Annotated[int, Meta(description="Messages given up within the last day.", examples=[0])]


class ProviderNumbers(msgspec.Struct, rename="camel"):
    """The provider in numbers."""

    breaker: Annotated[BreakerState, Meta(description="OPEN: it keeps failing and is left alone.", examples=["CLOSED"])]
    budget_per_minute: Annotated[int, Meta(description="Calls a minute it may be asked.", examples=[300])]
    calls_last_minute: Annotated[int, Meta(description="Calls of the last minute, by all processes.", examples=[42])]


class CacheShare(msgspec.Struct, rename="camel"):
    """One cache of the process that answers, in numbers."""

    hit_ratio: Annotated[float, Meta(description="Share of questions answered at once, 0 to 1.", examples=[0.93])]
    size: Annotated[int, Meta(description="Values held.", examples=[7])]


class MetricsSummary(msgspec.Struct, rename="camel"):
    """The fleet at one moment; the same from every process, but for `caches` and `provider.breaker`."""

    timestamp: Annotated[str, Meta(description="When it was counted.", examples=["2030-01-01T00:00:00.000Z"])]
    instances: Annotated[InstanceNumbers, Meta(description="The instances in numbers.")]
    usd_per_hour: Annotated[
        float, Meta(description="What everything that is billed costs an hour, disks included.", examples=[1.62])
    ]
    time_to_ready: Annotated[Durations, Meta(description="From the request to ready, over the last day.")]
    readiness_lag: Annotated[
        Durations, Meta(description="From the provider's first word that it runs to ready, over the last day.")
    ]
    queue: Annotated[QueueNumbers, Meta(description="The job queue.")]
    webhooks: Annotated[WebhookNumbers, Meta(description="The outbox.")]
    provider: Annotated[ProviderNumbers, Meta(description="How hard the provider is asked.")]
    caches: Annotated[dict[str, CacheShare], Meta(description="By cache, of the process that answers.")]


class HistoryStep(msgspec.Struct, rename="camel"):
    """One step of the past."""

    at: Annotated[str, Meta(description="Where the step ends.", examples=["2030-01-01T00:00:00.000Z"])]
    usd_per_hour: Annotated[
        float, Meta(description="What the fleet cost an hour, on the step's average.", examples=[1.62])
    ]
    became_ready: Annotated[int, Meta(description="Instances that became ready in it.", examples=[4])]
    time_to_ready: Annotated[Durations, Meta(description="From the request to ready, of these.")]
    readiness_lag: Annotated[Durations, Meta(description="From the provider's first word that it runs to ready.")]


class MetricsHistory(msgspec.Struct, rename={"since": "from", "step_seconds": "stepSeconds"}):
    """The last hours in equal steps, oldest first."""

    since: Annotated[str, Meta(description="Where the first step begins.", examples=["2029-12-31T00:00:00.000Z"])]
    step_seconds: Annotated[float, Meta(description="How long a step is.", examples=[1440.0])]
    usd: Annotated[float, Meta(description="What the fleet cost in all, over these hours.", examples=[38.9])]
    points: Annotated[list[HistoryStep], Meta(description="Sixty of them.")]


def handlers(engine: Engine) -> list[HTTPRouteHandler]:
    """The routes of `/api/metrics`."""
    fleet = engine.fleet

    @get("/api/metrics", summary="Get fleet metrics", tags=["metrics"], opt=VIEWER)
    async def get_metrics() -> MetricsSummary:
        """Counted over all processes, at most a second ago."""
        return _summary(await fleet.numbers(), engine)

    @get("/api/metrics/history", summary="Get the history of costs and times to ready", tags=["metrics"], opt=VIEWER)
    async def get_metrics_history(
        hours: Annotated[int, QueryParameter(ge=1, le=MOST_HOURS, description="How far back.")] = 24,
    ) -> MetricsHistory:
        """Sixty equal steps up to now. Costs follow from usage, so they are complete also after an outage of Corral."""
        return _history(await fleet.history(hours))

    return [get_metrics, get_metrics_history]


def _summary(numbers: FleetNumbers, engine: Engine) -> MetricsSummary:
    count, backlog = numbers.count, numbers.backlog
    by_status: dict[str, int] = {}
    for phase, instances in count.instances.items():
        word = engine.describer.view.status(phase)
        by_status[word] = by_status.get(word, 0) + instances
    return MetricsSummary(
        timestamp=iso(numbers.at),
        instances=InstanceNumbers(total=sum(by_status.values()), by_status=by_status),
        usd_per_hour=dollars(count.micro_usd),
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
            breaker=engine.fleet.reachability().breaker,
            budget_per_minute=numbers.calls_per_minute,
            calls_last_minute=numbers.calls_last_minute,
        ),
        caches={
            name.value: CacheShare(hit_ratio=round(stats.hit_ratio, 4), size=stats.size)
            for name, stats in ((name, cache.stats()) for name, cache in engine.caches.registry)
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
