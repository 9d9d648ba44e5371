"""
PgQueuer's own tables, under our prefix, and the two statements of it that we replace.

PgQueuer reads its names from the environment, even from variables as common as CHANNEL; ours are given in full so that
nothing in the environment can move the queue.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final, cast

import asyncpg
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job, TracebackRecord
from pgqueuer.ports.driver import Driver, NotifyCallback
from pgqueuer.queries import Queries

from corral.jobs.registry import Priority
from corral.store.database import UNREACHABLE, Connection, Pool
from corral.telemetry import log

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

# Who comes back has had its turn and queues up with the rest; else many that come back would hold up all others.
_POSTPONE = f"""
WITH postponed AS (
    UPDATE {QUEUE}
    SET status = 'queued', execute_after = now() + $2::interval, updated = now(), queue_manager_id = NULL,
        priority = least(priority, {Priority.HIGH:d})
    WHERE id = $1
    RETURNING id, entrypoint, priority
)
INSERT INTO {LOG} (job_id, status, entrypoint, priority) SELECT id, 'queued', entrypoint, priority FROM postponed
"""  # noqa: S608  # constants of this file


class Postponed(RetryRequested):
    """Asks for another run that does not count as a failed one."""


class PatientDriver(AsyncpgPoolDriver):
    """
    A driver that notifies nobody before it listens itself.

    PgQueuer proves its listener by sending itself a note, and may send the first one before it listens; the note is
    then lost and the listener taken for dead, ten seconds later.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._listens = asyncio.Event()

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """Listen, and from then on notify."""
        await super().add_listener(channel, callback)
        self._listens.set()

    async def notify(self, channel: str, payload: str) -> None:
        """Notify once we listen."""
        await self._listens.wait()
        await super().notify(channel, payload)


class CorralQueries(Queries):
    """PgQueuer's statements, with a retry that can be free of charge and that survives an absent database."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(
            driver,
            qbe=QueryBuilderEnvironment(_SETTINGS),
            qbq=QueryQueueBuilder(_SETTINGS),
            qbs=QuerySchedulerBuilder(_SETTINGS),
        )

    async def retry_job(self, job: Job, delay: timedelta, traceback_record: TracebackRecord | None) -> None:
        """
        Put *job* back.

        When the database cannot be reached the job is left as it is, and the next worker takes it over once its
        heartbeat is old: raising here would make PgQueuer record the job as failed for good.
        """
        try:
            if traceback_record is not None and traceback_record.exception_type == Postponed.__name__:
                await self.driver.execute(_POSTPONE, job.id, delay)
            else:
                await super().retry_job(job, delay, traceback_record)
        except UNREACHABLE:
            log.warning("job.unsaved", job_id=job.id, job_type=job.entrypoint)


def queries_of(connection: Connection | asyncpg.Connection) -> CorralQueries:
    """Statements on one connection, inside whatever transaction it has open."""
    return CorralQueries(AsyncpgDriver(cast("asyncpg.Connection", connection)))


def queries_of_pool(pool: Pool) -> CorralQueries:
    """Statements on any connection of the pool."""
    return CorralQueries(PatientDriver(pool))


async def install(connection: asyncpg.Connection) -> None:
    """Create PgQueuer's tables, or bring them up to the installed release of it."""
    queries = queries_of(connection)
    if await queries.schema_is_installed():
        await queries.apply_upgrade()
    else:
        async with connection.transaction():
            await queries.install()
