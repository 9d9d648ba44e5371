"""
The queue: adds, lists, counts and removes jobs, and pauses their processing.

Jobs that wait, run or failed are rows of PgQueuer's table; finished ones are rows of `corral_finished_jobs`. Reads
cover both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from corral.base.log import correlation_id
from corral.base.tracing import tracing
from corral.domain.audit import AuditEntry
from corral.jobs import pause, statements
from corral.jobs.driver import QUEUE
from corral.jobs.pause import PauseState
from corral.jobs.pgqueuer_adapter import LOG
from corral.jobs.registry import CORRELATION, TRACEPARENT, JobId, JobPool, Payload, Priority, Registry
from corral.store.session.database import SWEEP_SECONDS, Database
from corral.store.sql.bulk_insert import BulkInsert
from corral.store.sql.combined_statement import Write
from corral.store.tables.callers import audit


class JobStatus(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be enqueued."""

    type: str
    payload: Payload
    after: timedelta = timedelta(0)
    """Not before this much time has passed."""
    dedupe_key: str | None = None
    """While a job with this key waits or runs, another is not added."""
    first: bool = False
    """Before jobs of every type except urgent ones; see `Priority.FIRST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job as it is shown."""

    id: JobId
    type: str
    status: JobStatus
    priority: int
    attempts: int
    max_attempts: int
    created_at: datetime
    processed_at: datetime | None
    completed_at: datetime | None
    next_retry_at: datetime | None
    error: str | None
    payload: Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Counts of jobs, by `JobQueue.backlog` of every status but completed."""

    by_status: Mapping[JobStatus, int]
    oldest_pending_age: timedelta | None
    """How long the oldest job that could run has been waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats(Backlog):
    """Counts of all jobs."""

    by_type: Mapping[str, int]


_STATUSES = {"queued": JobStatus.PENDING, "picked": JobStatus.PROCESSING, "failed": JobStatus.FAILED}
_STORED_STATUSES = {**{status: word for word, status in _STATUSES.items()}, JobStatus.COMPLETED: "successful"}

_SHOWN_AS_STORED = ("id", "type", "priority", "created_at", "processed_at", "completed_at", "next_retry_at")

_ADD = BulkInsert(
    f"INSERT INTO {QUEUE} (payload, priority, entrypoint, execute_after, dedupe_key, status)"  # noqa: S608  # a constant
    " SELECT payload, priority, entrypoint, now() + delay, dedupe_key, 'queued' FROM {rows} ORDER BY place"
    " ON CONFLICT DO NOTHING RETURNING id",
    own="payload bytea",
    shared="priority int, entrypoint text, delay interval, dedupe_key text",
)

_CLEANUP = f"""
WITH finished AS (
    DELETE FROM corral_finished_jobs WHERE finished_at < now() - $1::interval RETURNING id
), failed AS (
    DELETE FROM {QUEUE} WHERE status = 'failed' AND updated < now() - $1::interval RETURNING id
), gone AS (
    SELECT id FROM finished UNION ALL SELECT id FROM failed
), logged AS (
    DELETE FROM {LOG} WHERE job_id IN (SELECT id FROM gone)
)
SELECT count(*) FROM gone
"""  # noqa: S608  # constants


def _payload(wanted: NewJob) -> bytes:
    """The stored payload; it names the current request as the cause, unless it names another, and the current span."""
    caused_by = None if CORRELATION in wanted.payload else correlation_id()
    named = {} if caused_by is None else {CORRELATION: caused_by}
    span = tracing.traceparent()
    if span is not None:
        named[TRACEPARENT] = span
    return msgspec.json.encode(named | dict(wanted.payload))


class JobQueue:
    """The durable queue of one database."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry

    def add(self, jobs: Sequence[NewJob], *, if_: str | None = None) -> Write:
        """
        Insert jobs, at least one, if the write called *if_* changed a row; returns the `id` of each that was added.

        A job is not added while another with its `dedupe_key` waits or runs. PgQueuer's own statement would also log
        that the jobs were enqueued; that log entry has no reader and would be a part of the cost of every create.
        """
        rows = [(_payload(job), self._priority(job), job.type, job.after, job.dedupe_key) for job in jobs]
        return Write("new_jobs", *_ADD.statement(rows, if_=if_))

    async def find(
        self,
        *,
        type: str | None = None,  # noqa: A002  # the public name of the filter
        status: JobStatus | None = None,
        priority: Priority | None = None,
        instance_id: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[JobView]:
        """Jobs of every status, newest first; *priority* HIGH includes the priorities above it."""
        word = None if status is None else _STORED_STATUSES[status]
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                statements.LIST, None, type, word, priority, instance_id, limit, offset, self._main_types()
            )
        return [self._view(row) for row in rows]

    async def get(self, job_id: JobId) -> JobView | None:
        """One job in any state, until it is cleaned up."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(statements.LIST, job_id, None, None, None, None, 1, 0, self._main_types())
        return self._view(rows[0]) if rows else None

    async def stats(self) -> QueueStats:
        """Counts over all jobs, and the age of the oldest waiting one."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(statements.STATS, self._main_types())
            now = await connection.fetchval("SELECT now()")
        by_status, by_type = dict.fromkeys(JobStatus, 0), dict[str, int]()
        for row in rows:
            by_status[_STATUSES.get(row["status"], JobStatus.COMPLETED)] += row["jobs"]
            by_type[row["type"]] = by_type.get(row["type"], 0) + row["jobs"]
        oldest = min((row["oldest_due"] for row in rows if row["oldest_due"] is not None), default=None)
        age = None if oldest is None else now - oldest
        return QueueStats(by_status=by_status, by_type=by_type, oldest_pending_age=age)

    async def backlog(self) -> Backlog:
        """Counts without finished jobs; unlike `stats` it takes the same time however many have finished."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(statements.BACKLOG, self._main_types())
        by_status = dict.fromkeys(_STATUSES.values(), 0) | {_STATUSES[row["status"]]: row["jobs"] for row in rows}
        return Backlog(by_status=by_status, oldest_pending_age=next((r["age"] for r in rows if r["age"]), None))

    async def pause(self, line: AuditEntry) -> PauseState:
        """Let no job begin, in any process, until `resume`; each process reads that within a second. Writes *line*."""
        return await self._set_pause(line, line.who)

    async def resume(self, line: AuditEntry) -> PauseState:
        """Let jobs begin again, and write *line* to the audit log."""
        return await self._set_pause(line, None)

    async def _set_pause(self, line: AuditEntry, by: str | None) -> PauseState:
        async with self._database.transaction() as connection:
            state = await pause.write(connection, by)
            await audit.append([line]).run(connection)
        return state

    async def paused(self) -> PauseState:
        """Whether processing is paused."""
        async with self._database.connection() as connection:
            return await pause.read(connection)

    async def cleanup(self, older_than: timedelta, line: AuditEntry | None) -> int:
        """
        Remove jobs that finished or failed more than *older_than* ago; returns how many.

        *line* is written to the audit log in the same transaction; None for the cleanup that no request asked for.
        """
        async with self._database.transaction() as connection:
            removed: int = await connection.fetchval(_CLEANUP, older_than, timeout=SWEEP_SECONDS)
            if line is not None:
                await audit.append([line]).run(connection)
        return removed

    def _main_types(self) -> list[str]:
        return [job_type.name for job_type in self._registry if job_type.pool is JobPool.MAIN]

    def _priority(self, wanted: NewJob) -> int:
        job_type = self._registry.get(wanted.type)
        if job_type is None:
            raise ValueError(f"no job type is called {wanted.type!r}; no worker would run it")
        return Priority.FIRST if wanted.first else job_type.priority

    def _view(self, row: Mapping[str, Any]) -> JobView:
        job_type = self._registry.get(row["type"])
        status = _STATUSES.get(row["status"], JobStatus.COMPLETED)
        # PgQueuer counts the retries asked for; a job that started at least once has made one attempt more.
        started = row["processed_at"] is not None and status is not JobStatus.PENDING
        return JobView(
            **{name: row[name] for name in _SHOWN_AS_STORED},
            status=status,
            attempts=row["attempts"] + (1 if started else 0),
            max_attempts=1 + (job_type.retries if job_type is not None else 0),
            error=row["error"] if status is not JobStatus.COMPLETED else None,
            payload=msgspec.json.decode(row["payload"]),
        )
