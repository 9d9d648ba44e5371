"""
PgQueuer's own tables, under our prefix, the two statements of it that we replace, and the release of taken jobs.

PgQueuer reads its names from the environment, even from variables as common as CHANNEL; ours are given in full so that
nothing in the environment can move the queue.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final, cast
from uuid import UUID

import asyncpg
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.core.buffers import HeartbeatBuffer, JobStatusLogBuffer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel, QueueEntrypoint, QueueManagerId
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job, TracebackRecord
from pgqueuer.ports.driver import Driver, NotifyCallback
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from corral.base.log import log
from corral.jobs.pause import Pause
from corral.jobs.registry import Priority
from corral.store.session.database import UNREACHABLE, Connection, Pool

QUEUE: Final = "corral_pgqueuer"
LOG: Final = "corral_pgqueuer_log"
CHANNEL: Final = Channel("corral_ch_pgqueuer")

_SETTINGS: Final = DBSettings(
    prefix="corral_",
    db_schema=None,
    channel=CHANNEL,
    function="corral_fn_pgqueuer_changed",
    statistics_table="corral_pgqueuer_statistics",
    queue_status_type="corral_pgqueuer_status",
    queue_table=QUEUE,
    queue_table_log=LOG,
    trigger="corral_tg_pgqueuer_changed",
    schedules_table="corral_pgqueuer_schedules",
    durability=Durability.durable,
    widen_id=True,
)

# Only by its owner: if this process was taken for dead, the job may be running elsewhere by now.
# A requeued job loses its place before the others, else many requeued jobs would delay all others. An urgent job stays
# urgent: it waits for the provider, and must not then wait behind creates as well.
_POSTPONE = f"""
WITH postponed AS (
    UPDATE {QUEUE}
    SET status = 'queued', execute_after = now() + $2::interval, updated = now(), queue_manager_id = NULL,
        priority = CASE WHEN priority >= {Priority.URGENT:d} THEN priority ELSE least(priority, {Priority.HIGH:d}) END
    WHERE id = $1 AND queue_manager_id = $3
    RETURNING id, entrypoint, priority
)
INSERT INTO {LOG} (job_id, status, entrypoint, priority) SELECT id, 'queued', entrypoint, priority FROM postponed
"""  # noqa: S608  # constants of this file

WAKE: Final = json.dumps(
    {
        "channel": CHANNEL,
        "sent_at": "1970-01-01T00:00:00Z",
        "type": "table_changed_event",
        "operation": "update",
        "table": QUEUE,
    }
)
"""The payload of PgQueuer's own trigger when the queue changed; no reader uses the time."""

_RELEASE: Final = f"""
WITH released AS (
    UPDATE {QUEUE}
    SET status = 'queued', queue_manager_id = NULL, execute_after = now(), updated = now()
    WHERE status = 'picked' AND queue_manager_id = ANY($1) AND ($3::text[] IS NULL OR entrypoint = ANY($3))
    RETURNING id
), counted AS (
    SELECT count(*) AS jobs FROM released
)
SELECT jobs, CASE WHEN jobs > 0 THEN pg_notify('{CHANNEL}', $2) END FROM counted
"""  # noqa: S608  # constants


class RequeueRequested(RetryRequested):
    """Asks for another run that does not count as a failed one."""


class ListenFirstDriver(AsyncpgPoolDriver):
    """
    A driver that sends no notification before it listens, and its statements over the connection that listens.

    PgQueuer checks its listener by a notification to itself, and may send the first one before it listens; that one is
    lost, and ten seconds later the listener counts as dead.

    asyncpg reads the types of PgQueuer's tables again on every connection that uses them, which takes the server 10 ms
    each: by the pool, every connection of it would.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._listens = asyncio.Event()
        self._callback: NotifyCallback | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._one_at_a_time = asyncio.Lock()

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Return rows; over the pool before and after it listens, and when that connection is lost."""
        connection = self._listener_connection
        if connection is None or connection.is_closed():
            return await super().fetch(query, *args)
        async with self._one_at_a_time:
            return [dict(row) for row in await connection.fetch(query, *args)]

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """Listen, and from then on notify."""
        await super().add_listener(channel, callback)
        self._callback = callback
        self._listens.set()

    def wake_after(self, delay: timedelta) -> None:
        """
        Have the worker of this process look for jobs once *delay* has passed.

        PgQueuer computes how long it sleeps before it sleeps. A job that is put back after that, for less than the
        poll interval, would wait for the next poll: no notification announces that a job became due.
        """
        seconds = max(delay.total_seconds(), 0.0)
        timer: asyncio.TimerHandle = asyncio.get_running_loop().call_later(seconds, lambda: self._wake(timer))
        self._timers.add(timer)

    def _wake(self, timer: asyncio.TimerHandle) -> None:
        self._timers.discard(timer)
        if self._callback is not None:
            self._callback(WAKE)

    async def __aexit__(self, *error: object) -> None:
        """Release the listener, and wake no more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        await super().__aexit__(*error)

    async def notify(self, channel: str, payload: str) -> None:
        """Notify once we listen."""
        await self._listens.wait()
        await super().notify(channel, payload)


class CorralQueries(Queries):
    """
    PgQueuer's statements, with requeues that count no attempt, retries on time, and retries while the database is away.

    *urgent* names job types of which a worker may take *spare* more than its limit allows: jobs that hang or wait for
    the rate limit then do not keep it from taking a stop or a delete. While *pause* is on the queue looks empty.
    *most* returns how many jobs the worker may have taken, in place of PgQueuer's fixed number.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        urgent: Collection[str] = (),
        spare: int = 0,
        pause: Pause | None = None,
        most: Callable[[], int] | None = None,
    ) -> None:
        self._pause = pause or Pause()
        self._most = most
        self._urgent = frozenset(urgent)
        self._spare = spare
        super().__init__(
            driver,
            qbe=QueryBuilderEnvironment(_SETTINGS),
            qbq=QueryQueueBuilder(_SETTINGS),
            qbs=QuerySchedulerBuilder(_SETTINGS),
        )

    async def dequeue(
        self,
        batch_size: int,
        entrypoints: dict[QueueEntrypoint, EntrypointExecutionParameter],
        queue_manager_id: QueueManagerId,
        global_concurrency_limit: int | None,
        heartbeat_timeout: timedelta,
    ) -> list[Job]:
        """Take jobs; when the limit allows none, urgent ones within the spare places."""
        if self._pause.is_on:
            return []
        if self._most is not None:
            batch_size = global_concurrency_limit = self._most()
        taken = await super().dequeue(
            batch_size, entrypoints, queue_manager_id, global_concurrency_limit, heartbeat_timeout
        )
        urgent = {name: limits for name, limits in entrypoints.items() if name in self._urgent}
        if taken or not urgent or global_concurrency_limit is None:
            return taken
        return await super().dequeue(
            self._spare, urgent, queue_manager_id, global_concurrency_limit + self._spare, heartbeat_timeout
        )

    async def queued_work(self, entrypoints: list[QueueEntrypoint]) -> int:
        """How many jobs wait; a paused worker need not look for them again soon."""
        return 0 if self._pause.is_on else await super().queued_work(entrypoints)

    async def eligible_queued_work(self, entrypoints: list[QueueEntrypoint]) -> int:
        """How many jobs could run."""
        return 0 if self._pause.is_on else await super().eligible_queued_work(entrypoints)

    async def next_deferred_eta(self, entrypoints: list[QueueEntrypoint]) -> timedelta | None:
        """How long until the next job could run."""
        return None if self._pause.is_on else await super().next_deferred_eta(entrypoints)

    async def retry_job(self, job: Job, delay: timedelta, traceback_record: TracebackRecord | None) -> None:
        """
        Put *job* back.

        When the database cannot be reached the job is left as it is, and the next worker takes it over once its
        heartbeat is old: raising here would make PgQueuer record the job as failed for good.
        """
        try:
            if traceback_record is not None and traceback_record.exception_type == RequeueRequested.__name__:
                await self.driver.execute(_POSTPONE, job.id, delay, job.queue_manager_id)
            else:
                await super().retry_job(job, delay, traceback_record)
        except UNREACHABLE:
            log.warning("job.unsaved", job_id=job.id, job_type=job.entrypoint)
            return
        self.wake_after(delay)

    def wake_after(self, delay: timedelta) -> None:
        """Have the worker of this process look for jobs once *delay* has passed."""
        if isinstance(self.driver, ListenFirstDriver):
            self.driver.wake_after(delay)


class CorralQueueManager(QueueManager):
    """PgQueuer's loop, in which the worker confirms its jobs together (`confirm_jobs`), not two tasks for each job."""

    async def _dispatch(
        self, job: Job, jbuff: JobStatusLogBuffer, hbuff: HeartbeatBuffer, heartbeat_timeout: timedelta
    ) -> None:
        del heartbeat_timeout
        await super()._dispatch(job, jbuff, hbuff, timedelta(0))  # none: it starts no heartbeat of its own

    async def confirm_jobs(self) -> None:
        """Record that the jobs taken here are alive."""
        if self.job_context:
            await self.queries.update_heartbeat(list(self.job_context))


def queries_of(connection: Connection | asyncpg.Connection) -> CorralQueries:
    """Statements on one connection, inside whatever transaction it has open."""
    return CorralQueries(AsyncpgDriver(cast("asyncpg.Connection", connection)))


async def release(
    connection: asyncpg.Connection | Connection, owners: Sequence[UUID], types: Sequence[str] | None = None
) -> int:
    """
    Put back the unfinished jobs of *owners*, without counting a failure; wakes workers and returns how many.

    With *types*, only jobs of these types: a process may have several workers.
    """
    return int(await connection.fetchval(_RELEASE, list(owners), WAKE, types) or 0)


async def install(connection: asyncpg.Connection) -> None:
    """Create PgQueuer's tables, or bring them up to the installed release of it."""
    queries = queries_of(connection)
    if await queries.schema_is_installed():
        await queries.apply_upgrade()
    else:
        async with connection.transaction():
            await queries.install()
