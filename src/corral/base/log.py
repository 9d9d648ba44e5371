"""
The log of the program.

A log event is a constant `noun.verb`, listed in `LOG_EVENTS` with its meaning; variables are bound as keys, never
formatted into the message. Secrets are redacted by their type (`SecretStr`), at any depth of a value.
"""

from __future__ import annotations

import atexit
import logging
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TextIO, cast

import structlog
from pydantic import SecretStr

from corral.base.log_writer import QueuedWriter
from corral.base.tracing import tracing

LOG_EVENTS: Final[dict[str, str]] = {
    "service.starting": "The process starts; says which version and role.",
    "service.ready": "Requests are served and jobs are taken; says where.",
    "service.stopping": "A stop was requested; running work may finish.",
    "service.stopped": "The process ends.",
    "task.failed": "A long-lived task met an unexpected error; it is started again after the pause that is named.",
    "clock.corrected": "This machine's clock differs from the database's by the seconds named; the database's is used.",
    "log.dropped": "Standard output was not read for so long that lines of the log were dropped; says how many.",
    "server.full": "There are as many connections as this process can take; more are refused until some end.",
    "simulator.started": "No provider key is set; the built-in simulator replaces the provider.",
    "simulator.ended": "The simulator ended unexpectedly; it is started again.",
    "database.starting": "The embedded PostgreSQL is being started.",
    "database.ready": "The database answers and is migrated.",
    "database.lost": "The database cannot be reached; requests answer 503 until it is back.",
    "database.regained": "The database answers again.",
    "database.migrated": "A migration was applied.",
    "notices.listening": "Notifications of other processes are received; caches start empty.",
    "notices.lost": "Notifications of other processes are not received; it is tried again, and caches only expire.",
    "notices.unreadable": "A notification on our channel cannot be read; it is ignored.",
    "process.lost": "Another process died, froze or was cut off; its sessions were ended and its jobs put back.",
    "process.unreported": "This process could not report to the database that it lives; it is tried again.",
    "worker.started": "Jobs are being taken.",
    "worker.interrupted": "Taking jobs failed, usually because the database went away; it is tried again.",
    "worker.drained": "All running jobs ended before the stop.",
    "worker.abandoned": "Jobs still ran at the end of the grace period; they were put back for another worker.",
    "locks.lost": "The session that held the locks of instances was lost; other processes may reconcile them too.",
    "job.failed": "A job failed for good; its error is kept and listed.",
    "job.retried": "A job failed and will be tried again.",
    "job.unsaved": "A job's outcome could not be stored; it will run again on some worker.",
    "history.swept": "Instances, operations, events, audit lines or times past their retention were removed.",
    "jobs.swept": "Finished jobs past their time were removed.",
    "answers.swept": "Answers kept under idempotency keys for a day were removed.",
    "audit.unwritten": "A line of the audit log could not be written; it is logged here instead.",
    "cloud.called": "One provider call; says which, the HTTP status (or why there was none) and how long.",
    "cloud.retried": "A call that is safe to repeat failed and is tried again.",
    "cloud.breaker_opened": "The provider kept failing; it is not called for a while.",
    "account.balance_unknown": "The balance of the account could not be read; it is read again ten minutes later.",
    "account.low_balance": "The balance of the account lasts for fewer hours than CORRAL_LOW_BALANCE_HOURS.",
    "budget.reported": "A threshold or the limit of a budget was reached; an event says so, once a period.",
    "budget.sweep_failed": "A budget could not be judged; the others were, and this one is tried again.",
    "budget.stopped": "A budget is spent and says to stop machines: this one is stopped.",
    "budget.stop_refused": "A budget is spent, but this machine cannot be stopped now; the next sweep tries again.",
    "budget.stop_waits": "A budget may be spent, but that is not certain for the reason given: nothing is stopped yet.",
    "cloud.breaker_closed": "The provider answers again.",
    "cloud.budget_halved": "The provider throttled us; the limit of calls a minute was halved.",
    "cloud.budget_unshared": "The shared rate limiter cannot be reached; this process uses a part of the limit.",
    "cloud.budget_shared_again": "The shared rate limiter is back; the calls made meanwhile were counted.",
    "cloud.service_paused": "The provider refused measurements or bills for coming too often; only these wait.",
    "cloud.word_unknown": "The provider sent an unknown instance status; the instance counts as in motion.",
    "instance.lookup_refused": "The provider refused to describe an instance; it is asked again.",
    "instance.phase_changed": "An instance entered another phase; says from where and why.",
    "instance.create_in_doubt": "A create call may have happened; its name is looked up before another is sent.",
    "instance.id_unrecorded": "The provider returned an id that could not be recorded; its name is searched for.",
    "instance.waiting": "An instance cannot be created at the moment; it is tried again until its deadline.",
    "instance.start_refused": "The provider did not start or restart an instance; it is asked again for a while.",
    "instance.ask_in_doubt": "A start, stop, restart or delete may have happened; the next observation shows it.",
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
    "instance.going_in_circles": "A mistake in Corral: one reconcile pass took more steps than the lifecycle allows.",
    "listing.degraded": "The merged listing could not ask the provider; it shows the records, with a warning.",
    "instance.stuck": "An instance makes no progress; `/api/orphans` shows why and what happens next.",
    "orphan.found": "A provider instance carries our mark and belongs to no record; `/api/orphans` lists it.",
    "orphan.deleted": "The grace period of an orphan is over; the provider is asked to delete it.",
    "orphan.sweep_failed": "The orphan sweep failed because the provider could not be asked; tried again.",
    "observer.leading": "This process leads: it observes the provider.",
    "observer.interrupted": "Leadership was lost, usually because the database went away; it is sought again.",
    "observer.listing_failed": "The provider could not be listed; the records stay as they are, marked stale.",
    "observer.listing_not_trusted": "The provider's list lacks machines that a lookup finds, or none was made of yet.",
    "observer.name_lookup_failed": "Creates in doubt could not be looked up by name; tried again later.",
    "observer.lookup_failed": "An instance in motion could not be looked up by its id; tried again later.",
    "observer.machine_unseen": "No page of the list showed a machine for a while, and a lookup did not find it.",
    "lease.notice_given": "The lease of an instance will stop or delete it; says why and when.",
    "lease.notice_cancelled": "The lease of an instance will not end it after all; says why.",
    "lease.applied": "The lease of an instance stopped, deleted or started it; says why.",
    "lease.refused": "The command of a lease is not possible at the moment; it is tried again.",
    "leases.notices_withdrawn": "The service was away, or its database was restored, copied or taken over by another "
    "server. Notices of leases are given again, because an extension may be missing.",
    "leases.read_failed": "How busy an instance was could not be read; it counts as busy, and is read again later.",
    "leases.sampling_interrupted": "Measuring idle instances failed because the database went away; tried again.",
    "costs.day_reconciled": "A day's usage agrees with the provider's bill; says how many machines and how much.",
    "costs.day_differs": "A day's usage does not explain the provider's bill; `corral costs reconcile DAY` shows it.",
    "costs.bill_unreachable": "The provider's bill of a day could not be read; it is tried again in an hour.",
    "usage.prices_unread": "Prices of usage could not be read from the provider; tried again.",
    "orphan.billed": "The bill has a machine with this installation's mark of which there is no usage.",
    "costs.lookup_failed": "The names of machines in the bill that are not known could not be looked up.",
    "leases.unplanned": "Instances had a lease and no planned reconcile; they are reconciled now.",
    "webhook.delivered": "A receiver accepted a message.",
    "webhook.retried": "A receiver did not accept a message; it is sent again later.",
    "webhook.given_up": "A message is not sent any more; it is listed, and can be sent again by hand.",
    "deliveries.swept": "Old deliveries were removed, and pending ones without a job were queued again.",
    "requests.unshared": "Counts for the request limit were not exchanged with other processes; tried again.",
    "streams.interrupted": "New events could not be read for the streams; it is tried again.",
    "tracing.unsent": "Spans could not be sent to the collector, or came faster than it takes them; they are dropped.",
    "request.failed": "A request failed because of a bug in Corral.",
    "request.served": "A request was answered.",
    "library.logged": "A library we use logged something.",
}
"""Every event this program logs; a test keeps the code and the documentation equal to it."""

log: Final = structlog.stdlib.get_logger("corral")
_level: Final = logging.getLogger("corral")
"""Logs nothing; it holds the level."""


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
        _add_trace_id,
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
    root.setLevel(max(threshold, logging.WARNING))  # operators need only warnings of libraries
    return writer


def _add_trace_id(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the id of the trace that the line belongs to, if there is one."""
    found = tracing.trace_id()
    if found is not None:
        event["trace_id"] = found
    return event


def _report_dropped(lines: int) -> None:
    log.warning("log.dropped", lines=lines)


def correlation_id() -> str | None:
    """The correlation id that log lines carry here: of the request, or of the request that caused the job."""
    found = structlog.contextvars.get_contextvars().get("correlation_id")
    return found if isinstance(found, str) else None


def is_debugging() -> bool:
    """Whether a line at debug level would be written; hot paths check it before building one."""
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
    """Escape control characters in texts such as the provider's messages, for a terminal."""
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
