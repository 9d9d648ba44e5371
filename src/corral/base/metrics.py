"""The metrics that one process counts; a registry is passed around, so that two services in one test stay apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from corral.domain.events import EventType
from corral.domain.leases.lease import EndAction, EndCause
from corral.domain.lifecycle.phases import Action, Phase
from corral.domain.lifecycle.tables import TRANSITIONS
from corral.domain.operation import OperationKind

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)

READY_BUCKETS: Final = (5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 600.0, 1200.0)
LAG_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class ReconcileEnd(StrEnum):
    """How a pass over an instance ended."""

    SETTLED = "settled"
    """Nothing more to do now."""
    AGAIN = "again"
    """To be looked at again soon."""
    BUSY = "busy"
    """Another pass had it."""
    STALE = "stale"
    """Another process changed it meanwhile."""
    FAILED = "failed"
    """An error, ours or the provider's; it is tried again."""


class ActionEnd(StrEnum):
    """How an action ended."""

    OK = "ok"
    FAILED = "failed"


class ListingEnd(StrEnum):
    """How a listing of the account ended."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    """Some pages could not be read, or changed while they were."""
    FAILED = "failed"


class ReadEnd(StrEnum):
    """How a read of the measurements of an instance with an idle rule ended."""

    OK = "ok"
    FAILED = "failed"
    """What the provider did not answer is unknown, and ends nothing."""
    POSTPONED = "postponed"
    """The share of the rate limit for measurements was used up, or the provider keeps failing."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric, as the reference page lists it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


def blank(family: MetricFamily) -> CounterMetricFamily | GaugeMetricFamily:
    """*family* without values, for a collector to fill."""
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.meaning, labels=family.labels)


class Metrics:
    """
    The metrics of one process; those of the whole fleet are in `engine/queries/fleet.py`.

    Label values come from our own tables and are never ids. Those known in advance exist from the start, so that a
    graph of something that never happened shows zero, not a gap.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.families: list[MetricFamily] = []
        self._count_service()
        self._count_life()
        self._count_provider()
        self._count_leases()

    def _count_service(self) -> None:
        self.requests = self._counter("corral_http_requests_total", "Requests answered.", "method", "route", "status")
        self.request_seconds = self._histogram("corral_http_request_seconds", "Time to answer a request.", "route")
        self.event_streams = self._gauge("corral_event_streams", "Clients that follow the event stream.")
        self.log_readings = self._gauge("corral_log_readings", "Logs of machines that are being read.")
        self.jobs = self._counter("corral_jobs_total", "Job runs by how they ended.", "type", "outcome")
        self.jobs_paused = self._gauge("corral_jobs_paused", "1 while the processing of jobs is paused.")
        self.job_seconds = self._histogram("corral_job_seconds", "Time one job run took.", "type")
        self.webhook_attempts = self._counter(
            "corral_webhook_attempts_total", "Webhook messages sent, by outcome.", "fate"
        )
        self.webhook_seconds = self._histogram("corral_webhook_attempt_seconds", "Time a receiver took to answer.")
        self.audit_unwritten = self._counter(
            "corral_audit_unwritten_total",
            "Requests missing in the audit log: beyond the limit for unknown callers (`strangers`), or `failed`.",
            "reason",
        )
        self.log_lines_dropped = self._counter(
            "corral_log_lines_dropped_total", "Lines of the log dropped because standard output was not read."
        )
        self.database_up = self._gauge("corral_database_up", "1 when the database answers.")

    def _count_life(self) -> None:
        self.transitions = self._counter(
            "corral_transitions_total", "Changes of an instance's phase; `from` is empty for a new one.", "from", "to"
        )
        for before, after in {("", Phase.CREATING), *TRANSITIONS}:
            self.transitions.labels(before, after)
        self.events = self._counter("corral_events_total", "Events written to the log.", "event")
        for event in EventType:
            self.events.labels(event)
        self.reconciles = self._counter("corral_passes_total", "Passes over an instance, by how they ended.", "outcome")
        for end in ReconcileEnd:
            self.reconciles.labels(end)
        self.pass_seconds = self._histogram("corral_pass_seconds", "Time one pass took, its calls included.")
        self.actions = self._counter("corral_actions_total", "Actions taken, by how they ended.", "action", "outcome")
        for action in Action:
            for outcome in ActionEnd:
                self.actions.labels(action, outcome)
        self.ready_seconds = self._histogram(
            "corral_time_to_ready_seconds", "From the request to ready.", "kind", buckets=READY_BUCKETS
        )
        self.ready_lag_seconds = self._histogram(
            "corral_readiness_lag_seconds",
            "From the first observation that an instance runs to ready.",
            "kind",
            buckets=LAG_BUCKETS,
        )
        for kind in (OperationKind.CREATE, OperationKind.START, OperationKind.RESTART):
            self.ready_seconds.labels(kind)
            self.ready_lag_seconds.labels(kind)

    def _count_leases(self) -> None:
        self.lease_notices = self._counter(
            "corral_lease_notices_total", "Notices that a lease will end an instance.", "cause"
        )
        self.lease_ends = self._counter("corral_lease_ends_total", "Instances ended by their lease.", "cause", "action")
        for cause in EndCause:
            self.lease_notices.labels(cause)
            for action in EndAction:
                self.lease_ends.labels(cause, action)
        self.idle_reads = self._counter(
            "corral_idle_reads_total", "Reads of how busy an instance with an idle rule was, by outcome.", "outcome"
        )
        for end in ReadEnd:
            self.idle_reads.labels(end)

    def _count_provider(self) -> None:
        self.provider_calls = self._counter(
            "corral_provider_calls_total", "Requests sent to the provider, by how they ended.", "endpoint", "outcome"
        )
        self.provider_call_seconds = self._histogram(
            "corral_provider_call_seconds", "Time the provider took to answer.", "endpoint"
        )
        self.provider_retries = self._counter("corral_provider_retries_total", "Requests repeated.", "endpoint")
        self.provider_permits_unshared = self._counter(
            "corral_provider_permits_unshared_total",
            "Calls allowed without the shared rate limiter, because it could not be reached.",
        )
        self.provider_permits_refused = self._counter(
            "corral_provider_permits_refused_total", "Calls given up because the rate limit had no room for too long."
        )
        self.provider_breaker = self._gauge(
            "corral_provider_breaker_state", "1 for the present state of this process's circuit breaker.", "state"
        )
        self.listings = self._counter(
            "corral_looks_total", "Listings of the whole account by this process, by how they ended.", "outcome"
        )
        for word in ListingEnd:
            self.listings.labels(word)
        self.look_seconds = self._histogram("corral_look_seconds", "Time one listing of the whole account took.")

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.families.append(MetricFamily(name, "counter", meaning, labels))
        return _keeping_children(Counter(name, meaning, labels, registry=self.registry))

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        self.families.append(MetricFamily(name, "gauge", meaning, labels))
        return _keeping_children(Gauge(name, meaning, labels, registry=self.registry))

    def _histogram(
        self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = Histogram.DEFAULT_BUCKETS
    ) -> Histogram:
        self.families.append(MetricFamily(name, "histogram", meaning, labels))
        return _keeping_children(Histogram(name, meaning, labels, registry=self.registry, buckets=buckets))

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.requests.labels(method, route, status).inc()
        self.request_seconds.labels(route).observe(seconds)


def _keeping_children(metric: _Metric) -> _Metric:
    """
    *metric*, of which `labels` looks each child up once.

    The library's lookup takes a lock and makes texts of the values, twenty times for each instance that is created.
    """
    metric.labels = cache(metric.labels)  # type: ignore[method-assign]
    return metric
