"""The fleet's numbers for Prometheus: read from the database for each scrape, so that every process shows the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from corral.base.metrics import MetricFamily, blank
from corral.domain.errors import StoreUnavailableError
from corral.domain.placement.pricing import usd
from corral.engine.queries.fleet import Fleet, FleetNumbers

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
            _filled(_COST, [([], usd(count.micro_usd))]),
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
