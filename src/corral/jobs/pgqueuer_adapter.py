"""
PgQueuer's own tables, under our prefix, the two statements of it that we replace, and the release of taken jobs.

PgQueuer reads its names from the environment, even from variables as common as CHANNEL; ours are given in full so that
nothing in the environment can move the queue.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from datetime import timedelta
from typing import Final, cast
from uuid import UUID

import asyncpg
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.core.buffers import HeartbeatBuffer, JobStatusLogBuffer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job, TracebackRecord
from pgqueuer.ports.driver import Driver
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from corral.base.log import log
from corral.jobs.driver import CHANNEL, QUEUE, WAKE, ListenFirstDriver
from corral.jobs.pause import Pause
from corral.jobs.registry import Priority
from corral.store.session.database import UNREACHABLE, Connection

LOG: Final = "corral_pgqueuer_log"

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


# By the index on type and time, one entry a type: a queue of thousands costs no more than an empty one.
_DUE_IN: Final = f"""
SELECT min(job.execute_after) - now() AS due_in
FROM unnest($1::text[]) AS type, LATERAL (
    SELECT execute_after FROM {QUEUE} WHERE entrypoint = type AND status = 'queued' ORDER BY execute_after LIMIT 1
) AS job
"""  # noqa: S608  # a constant


class RequeueRequested(RetryRequested):
    """Asks for another run that does not count as a failed one."""


class CorralQueries(Queries):
    """
    PgQueuer's statements, with requeues that count no attempt, retries on time, and retries while the database is away.

    *most* returns how many jobs the worker may have taken, in place of PgQueuer's fixed number. *urgent* names types of
    which it may take *spare* more: jobs that hang or wait for the rate limit then do not keep it from taking a stop or
    a delete. While *pause* is on the queue looks empty.
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

    async def take(
        self,
        types: Collection[QueueEntrypoint],
        taken: int,
        queue_manager_id: QueueManagerId,
        heartbeat_timeout: timedelta,
    ) -> list[Job]:
        """
        Take jobs of *types* for a worker that has *taken* so many; if it is full, urgent ones within the spare places.

        No more are asked for than there is room for: PostgreSQL locks the row of each that it considers.
        """
        if self._pause.is_on or self._most is None:
            return []
        most = self._most()
        room = most - taken
        if room <= 0:
            types, room, most = [name for name in types if name in self._urgent], self._spare, most + self._spare
        if not types:
            return []
        unlimited = {name: EntrypointExecutionParameter(concurrency_limit=0) for name in types}
        return await self.dequeue(room, unlimited, queue_manager_id, most, heartbeat_timeout)

    async def due_in(self, types: Collection[QueueEntrypoint]) -> timedelta | None:
        """How long until the next job of *types* may run, negative if one waits; None without any, or while paused."""
        if self._pause.is_on:
            return None
        ((due_in,),) = [row.values() for row in await self.driver.fetch(_DUE_IN, list(types))]
        return cast("timedelta | None", due_in)

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
    """
    PgQueuer's loop, with fewer statements.

    The worker confirms its jobs together (`confirm_jobs`), not by two tasks for each job. A look that finds no job
    takes two statements instead of five: a burst of notifications causes many such looks.
    """

    def __init__(self, queries: CorralQueries) -> None:
        super().__init__(queries, CHANNEL)
        self._corral_queries = queries

    async def fetch_jobs(
        self,
        batch_size: int,  # noqa: ARG002  # PgQueuer's signature
        global_concurrency_limit: int | None,  # noqa: ARG002
        heartbeat_timeout: timedelta,
    ) -> AsyncGenerator[Job]:
        """Take jobs while there are any."""
        while not self.shutdown.is_set():
            taken = len(self.job_context)
            jobs = await self._corral_queries.take(
                self.entrypoint_registry, taken, self.queue_manager_id, heartbeat_timeout
            )
            if not jobs:
                return
            for job in jobs:
                yield job

    async def _effective_dequeue_timeout(self, dequeue_timeout: timedelta) -> timedelta:
        due_in = await self._corral_queries.due_in(self.entrypoint_registry)
        return dequeue_timeout if due_in is None else min(max(due_in, self.min_dequeue_poll_interval), dequeue_timeout)

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
