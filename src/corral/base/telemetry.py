"""
What the program tells about itself: logs and metrics.

A log event is a constant `noun.verb`, listed in `LOG_EVENTS` with its meaning; variables are bound as keys, never
formatted into the message. Secrets are redacted by their type (`SecretStr`), wherever in a value they stand.
Metrics belong to a registry that is handed around, so that two services in one test do not count into each other.
"""

from __future__ import annotations

import atexit
import logging
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, TextIO, cast

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from pydantic import SecretStr

from corral.base.log_writer import QueuedWriter
from corral.domain.events import EventType
from corral.domain.lifecycle.tables import TRANSITIONS, Action, Phase
from corral.domain.operation import OperationKind

LOG_EVENTS: Final[dict[str, str]] = {
    "service.starting": "The process begins; says which version, role and data it uses.",
    "service.ready": "Requests are served and jobs are taken; says where.",
    "service.stopping": "A stop was asked for; running work may end.",
    "service.stopped": "The process ends.",
    "task.failed": "A long-lived task met an unexpected error; it is started again after the pause that is named.",
    "clock.corrected": "This machine's clock differs from the database's by the seconds named; the database's is used.",
    "log.dropped": "Standard output was not read for so long that lines of the log were dropped; says how many.",
    "server.full": "There are as many connections as this process can take; more are refused until some end.",
    "simulator.started": "No provider key is set; the built-in simulator stands in for the provider.",
    "simulator.ended": "The simulator ended unasked; it is started again.",
    "database.starting": "The embedded PostgreSQL is being started.",
    "database.ready": "The database answers and is migrated.",
    "database.lost": "The database cannot be reached; requests answer 503 until it is back.",
    "database.regained": "The database answers again.",
    "database.migrated": "A migration was applied.",
    "notices.listening": "Changes made by other processes are heard; caches begin empty.",
    "notices.lost": "Changes made by other processes are not heard; it is tried again, and caches only expire.",
    "notices.unreadable": "A notice on our channel is not one of ours; it is passed over.",
    "process.lost": "Another process died, froze or was cut off; its sessions were ended and its jobs put back.",
    "process.unreported": "This process could not report to the database that it lives; it is tried again.",
    "worker.started": "Jobs are being taken.",
    "worker.interrupted": "Taking jobs failed, usually because the database went away; it is tried again.",
    "worker.drained": "All running jobs ended before the stop.",
    "worker.abandoned": "Jobs still ran at the end of the grace period; they were put back for another worker.",
    "job.failed": "A job failed for good; its error is kept and listed.",
    "job.retried": "A job failed and will be tried again.",
    "job.unsaved": "A job's outcome could not be stored; it will run again on some worker.",
    "jobs.swept": "Finished jobs past their time were removed.",
    "answers.swept": "Answers kept under idempotency keys for a day were removed.",
    "audit.unwritten": "A line of the audit log could not be written; it is told here instead.",
    "audit.swept": "Lines of the audit log past their time were removed.",
    "cloud.called": "The provider was asked once; says what, the HTTP status (or why there was none) and how long.",
    "cloud.retried": "A call that is safe to repeat failed and is tried again.",
    "cloud.breaker_opened": "The provider kept failing; it is left alone for a while.",
    "cloud.breaker_closed": "The provider answers again.",
    "cloud.budget_halved": "The provider said we ask too often; the calls a minute were halved.",
    "cloud.budget_unshared": "The shared budget cannot be reached; a part of it is used without asking.",
    "cloud.budget_shared_again": "The shared budget is back; what was used meanwhile was charged to it.",
    "cloud.word_unknown": "The provider used a word for an instance's state that has no meaning here; it is in motion.",
    "instance.look_refused": "The provider refuses to describe an instance; it is asked again.",
    "instance.phase_changed": "An instance entered another phase; says from where and why.",
    "instance.create_in_doubt": "A create call may have happened; it is looked for before anything is asked again.",
    "instance.id_unrecorded": "The provider returned an id that could not be recorded; its name is searched for.",
    "instance.waiting": "An instance cannot be created at the moment; it is tried again until its deadline.",
    "instance.start_refused": "The provider did not start or restart an instance; it is asked again for a while.",
    "instance.ask_in_doubt": "A start, stop, restart or delete may have happened; the next look tells.",
    "instance.ask_refused": "The provider refused to stop or delete an instance; it is asked again, and may be billed.",
    "create.allowed_by_name_lookup": "A create is sent because a lookup of its name shows that it has no machine.",
    "create.machine_found": "A create was not sent: a lookup of its name found a machine, which is recorded.",
    "create.name_lookup_failed": "The provider could not be asked for the name of a create that waits for a listing.",
    "create.waits_for_settling": "The database was restored, copied or taken over by another server. Its requests "
    "without a machine wait for the seconds named, because the provider's list may not show the latest machines.",
    "create.waits_for_listing": "Creates wait: no complete listing was compared since the start.",
    "instance.adopted_by_name": "An instance got a machine that was found by its name: lost, moved or newer.",
    "instance.illegal_transition": "A mistake in Corral: a change of phase that the lifecycle does not have. It was "
    "not recorded, nothing followed from it, and the instance is looked at again later.",
    "instance.going_in_circles": "One pass took more steps than it ever should; a mistake in the tables.",
    "listing.degraded": "The merged listing could not ask the provider; what is known is shown, with a warning.",
    "instance.stuck": "An instance makes no progress; `/api/orphans` tells why and what happens next.",
    "orphan.found": "A provider instance carries our mark and belongs to no record; `/api/orphans` lists it.",
    "orphan.deleted": "The grace period of an orphan is over; the provider is asked to delete it.",
    "orphan.sweep_failed": "Orphans could not be looked after, because the provider could not be asked; tried again.",
    "observer.leading": "This process is the one that looks at the provider.",
    "observer.interrupted": "The lead was lost, usually because the database went away; it is sought again.",
    "observer.look_failed": "The provider could not be listed; what is known stands, marked stale.",
    "observer.listing_not_trusted": "The provider's list lacks machines that a lookup finds, or none was made of yet.",
    "observer.name_lookup_failed": "Creates in doubt could not be looked up by name; tried again later.",
    "observer.peek_failed": "An instance that moves could not be looked at by its id; it is tried again later.",
    "webhook.delivered": "A receiver took a message.",
    "webhook.retried": "A receiver did not take a message; it is sent again later.",
    "webhook.given_up": "A message is not sent any more; it is listed, and can be sent again by hand.",
    "deliveries.swept": "Old deliveries were removed, and pending ones that nobody came for put in line again.",
    "requests.unshared": "Counts for the request limit were not exchanged with other processes; tried again.",
    "streams.interrupted": "New events could not be read for the streams; it is tried again.",
    "request.failed": "A request ended in an error that is ours.",
    "request.served": "A request was answered.",
    "library.logged": "A library we use logged something.",
}
"""Every event this program logs; a test keeps the code and the documentation equal to it."""

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
    """Somebody else changed it meanwhile."""
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


log: Final = structlog.stdlib.get_logger("corral")
_level: Final = logging.getLogger("corral")
"""Logs nothing; it knows the level."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric, as the reference page lists it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


def blank(family: MetricFamily) -> CounterMetricFamily | GaugeMetricFamily:
    """*family* without numbers, for those who fill it when asked."""
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.meaning, labels=family.labels)


class Metrics:
    """
    The numbers one process counts. What is true of the whole fleet is not among them: `engine/queries/fleet_gauges.py`.

    Labels are words of our own tables, never ids. Those known from the beginning are there from the beginning: a graph
    of something that never happened shows zero, not a gap.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.families: list[MetricFamily] = []
        self._request_counters: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._count_service()
        self._count_life()
        self._count_provider()

    def _count_service(self) -> None:
        self.requests = self._counter("corral_http_requests_total", "Requests answered.", "method", "route", "status")
        self.request_seconds = self._histogram("corral_http_request_seconds", "Time to answer a request.", "route")
        self.event_streams = self._gauge("corral_event_streams", "Clients that follow the event stream.")
        self.jobs = self._counter("corral_jobs_total", "Job runs by how they ended.", "type", "outcome")
        self.jobs_paused = self._gauge("corral_jobs_paused", "1 while the processing of jobs is paused.")
        self.job_seconds = self._histogram("corral_job_seconds", "Time one job run took.", "type")
        self.webhook_attempts = self._counter(
            "corral_webhook_attempts_total", "Webhook messages sent, by what came of it.", "fate"
        )
        self.webhook_seconds = self._histogram("corral_webhook_attempt_seconds", "Time a receiver took to answer.")
        self.audit_unwritten = self._counter(
            "corral_audit_unwritten_total",
            "Requests missing in the audit log: beyond the limit of unknown callers (`strangers`), or `failed`.",
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
        self.passes = self._counter("corral_passes_total", "Passes over an instance, by how they ended.", "outcome")
        for end in ReconcileEnd:
            self.passes.labels(end)
        self.pass_seconds = self._histogram("corral_pass_seconds", "Time one pass took, its calls included.")
        self.actions = self._counter("corral_actions_total", "Actions taken, by how they ended.", "action", "outcome")
        for action in Action:
            for outcome in ActionEnd:
                self.actions.labels(action, outcome)
        self.ready_seconds = self._histogram(
            "corral_time_to_ready_seconds", "From the wish to ready.", "kind", buckets=READY_BUCKETS
        )
        self.ready_lag_seconds = self._histogram(
            "corral_readiness_lag_seconds",
            "From the provider's first word that an instance runs to ready.",
            "kind",
            buckets=LAG_BUCKETS,
        )
        for kind in (OperationKind.CREATE, OperationKind.START, OperationKind.RESTART):
            self.ready_seconds.labels(kind)
            self.ready_lag_seconds.labels(kind)

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
            "Calls allowed without asking the shared budget, because it could not be reached.",
        )
        self.provider_permits_refused = self._counter(
            "corral_provider_permits_refused_total", "Calls given up because the budget had no room for too long."
        )
        self.provider_breaker = self._gauge(
            "corral_provider_breaker_state", "1 for the present state of this process's circuit breaker.", "state"
        )
        self.looks = self._counter(
            "corral_looks_total", "Listings of the whole account by this process, by how they ended.", "outcome"
        )
        for word in ListingEnd:
            self.looks.labels(word)
        self.look_seconds = self._histogram("corral_look_seconds", "Time one listing of the whole account took.")

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.families.append(MetricFamily(name, "counter", meaning, labels))
        return Counter(name, meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        self.families.append(MetricFamily(name, "gauge", meaning, labels))
        return Gauge(name, meaning, labels, registry=self.registry)

    def _histogram(
        self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = Histogram.DEFAULT_BUCKETS
    ) -> Histogram:
        self.families.append(MetricFamily(name, "histogram", meaning, labels))
        return Histogram(name, meaning, labels, registry=self.registry, buckets=buckets)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request; looking its counters up by label every time would cost more than counting."""
        key = (method, route, status)
        counters = self._request_counters.get(key)
        if counters is None:
            counters = self.requests.labels(method, route, str(status)), self.request_seconds.labels(route)
            self._request_counters[key] = counters
        counters[0].inc()
        counters[1].observe(seconds)


def configure_logging(level: str, *, stream: TextIO | None = None, queued: bool = False) -> QueuedWriter | None:
    """
    Log to *stream* (standard output): for reading on a terminal, as JSON lines elsewhere.

    With *queued*, lines are written by a thread, through the writer that is returned, and the end of the process waits
    briefly for it: for a service, which must not stop when its output is not read.
    """
    output = stream or sys.stdout
    writer = QueuedWriter(output.fileno(), on_dropped=_report_dropped) if queued else None
    if writer is not None:
        output.flush()
        atexit.register(writer.drain)
    threshold = logging.getLevelNamesMapping()[level.upper()]
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact_secrets,
    ]
    if output.isatty():
        # Its own traceback prints every local variable, keys among them.
        processors += [_escape_control_characters, structlog.dev.ConsoleRenderer(exception_formatter=_plain_traceback)]
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", writer or output)),
        cache_logger_on_first_use=False,
    )
    _level.setLevel(threshold)
    root = logging.getLogger()
    root.handlers[:] = [_LibraryHandler()]
    root.setLevel(max(threshold, logging.WARNING))  # what libraries say below a warning is noise to an operator
    return writer


def _report_dropped(lines: int) -> None:
    log.warning("log.dropped", lines=lines)


def correlation_id() -> str | None:
    """The correlation id that log lines carry here: of the request, or of the request that caused the job."""
    found = structlog.contextvars.get_contextvars().get("correlation_id")
    return found if isinstance(found, str) else None


def is_debugging() -> bool:
    """Whether a line at debug level would be written; where every microsecond counts, ask before making one."""
    return _level.isEnabledFor(logging.DEBUG)


def redact_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace every secret in *event*, at any depth."""
    return {key: _redacted(value) for key, value in event.items()}


def _redacted(value: object) -> object:
    match value:
        case SecretStr():
            return "********"
        case Mapping():
            return {key: _redacted(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_redacted(inner) for inner in value]
        case _:
            return value


def _escape_control_characters(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Make texts from elsewhere, such as the provider's messages, harmless to a terminal."""
    return {key: _printable(value) if isinstance(value, str) else value for key, value in event.items()}


def _plain_traceback(output: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback without the values of variables and without control characters."""
    lines = "".join(traceback.format_exception(*exc_info)).split("\n")
    output.write("\n" + "\n".join(map(_printable, lines)).rstrip())


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class _LibraryHandler(logging.Handler):
    """Passes what libraries log through the standard module on to our log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.log(
            record.levelno,
            "library.logged",
            library=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info or None,
        )
