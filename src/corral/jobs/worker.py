"""
The worker: takes and runs jobs until the process ends.

PgQueuer takes the jobs. This file starts PgQueuer again after an outage of the database; at shutdown it lets running
jobs end for a while and puts the rest back for another worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

from pgqueuer.domain.types import QueueManagerId

from corral.base.clock import Clock, is_set_within
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.base.supervision import BackgroundTask, supervise
from corral.domain.errors import StoreUnavailableError
from corral.domain.timing import delay
from corral.jobs.driver import ListenFirstDriver
from corral.jobs.execution import URGENT_PLACES, AdaptiveSemaphore, Executor, RunningJobs
from corral.jobs.pause import Pause
from corral.jobs.pgqueuer_adapter import CorralQueries, CorralQueueManager, release
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import JobPool, JobType, Priority, Registry
from corral.store.session.database import UNREACHABLE, Database

GRACE_SECONDS = 10.0
"""How long running jobs may continue after `stop`."""
PUT_BACK_SECONDS = 3.0
"""How long putting jobs back may take; later they are taken over because their heartbeat stops."""
LONG_RUN_SECONDS = 30.0
"""After taking jobs for this long, the next interruption counts as the first failure again."""
HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""A worker that has not confirmed a job for this long is dead, and the job is taken over. A stopped process is missed
sooner (`store/session/presence.py`); this is for a worker that hangs in a process that reports. With DEQUEUE_TIMEOUT
it stays well under the 60 s that are promised; too short, and a worker that is merely slow sees its jobs run twice."""
DEQUEUE_TIMEOUT = timedelta(seconds=5)
"""How long a worker sleeps without a notification of new jobs; only jobs of dead workers wait for it."""

ENDS_TOGETHER = 50
"""Jobs whose end PgQueuer records in one statement, or those of a tenth of a second. Fewer, and a busy worker sends
more statements; more, and more jobs may run again after a SIGKILL."""


@dataclass(kw_only=True)
class Worker:
    """Takes and runs jobs of one database until it is stopped."""

    database: Database = field(kw_only=False)
    registry: Registry = field(kw_only=False)
    queue: JobQueue = field(kw_only=False)
    clock: Clock
    metrics: Metrics
    concurrency: int
    pool: JobPool = JobPool.MAIN
    is_crowded: Callable[[], bool] = lambda: False
    process_id: UUID = field(default_factory=uuid4)
    """The owner of the jobs taken here; `store/session/presence.py` shows whether it is alive."""
    pause: Pause = field(default_factory=Pause)
    heartbeat_timeout: timedelta = HEARTBEAT_TIMEOUT
    dequeue_timeout: timedelta = DEQUEUE_TIMEOUT

    def __post_init__(self) -> None:
        """Begin with nothing taken."""
        self._manager: CorralQueueManager | None = None
        self._queries: CorralQueries | None = None
        self._stopping, self._ended = asyncio.Event(), asyncio.Event()
        self._ended.set()
        self.pause.on_resume(self._wake)
        places = AdaptiveSemaphore(self.concurrency, is_crowded=self.is_crowded)
        self._running = RunningJobs(places, self.clock, self.pause)

    async def run(self) -> None:
        """Take jobs until `stop` is called; continues after an outage of the database."""
        self._ended.clear()
        try:
            async with asyncio.TaskGroup() as group:
                timers = [group.create_task(supervise(timer, self.clock)) for timer in self._timers()]
                await self._take_jobs_for_ever()
                for timer in timers:
                    timer.cancel()
        finally:
            self._ended.set()

    async def _take_jobs_for_ever(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = self.clock.monotonic()
            try:
                await self._take_jobs()
            except Exception as error:  # noqa: BLE001  # the outermost frame: whatever it was, take jobs again
                failures = 1 if self.clock.monotonic() - began > LONG_RUN_SECONDS else failures + 1
                log.warning("worker.interrupted", failures=failures, reason=repr(error))
                await is_set_within(self._stopping, delay(failures, first=0.1, most=5.0), self.clock)

    async def stop(self, grace_seconds: float = GRACE_SECONDS) -> int:
        """Take no more jobs, let the running ones end, then put the rest back; returns how many were put back."""
        self._stopping.set()
        if self._manager is not None:
            self._manager.shutdown.set()
        if await self._has_ended(grace_seconds):
            log.info("worker.drained")
            return 0
        abandoned = self._running.abandon()
        log.warning("worker.abandoned", jobs=abandoned)
        await self._has_ended(PUT_BACK_SECONDS)
        return abandoned

    async def _has_ended(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._ended.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        """Check for jobs now."""
        if self._queries is not None:
            self._queries.wake_after(timedelta(0))

    async def _take_jobs(self) -> None:
        # Nothing runs here at this moment, so what is ours in the queue was left by an interruption.
        async with self.database.connection() as connection:
            await release(connection, [self.process_id], [job_type.name for job_type in self.registry])
        if self._stopping.is_set():  # meanwhile: `stop` found no manager that it could end
            return
        urgent = [job_type.name for job_type in self.registry if job_type.priority >= Priority.URGENT]
        queries = CorralQueries(
            ListenFirstDriver(self.database.pool),
            urgent=urgent,
            spare=URGENT_PLACES,
            pause=self.pause,
            most=self._most_taken,
        )
        self._queries = queries
        manager = CorralQueueManager(queries)
        manager.queue_manager_id = QueueManagerId(self.process_id)
        for job_type in self.registry:
            executor = Executor(job_type, self._running, metrics=self.metrics, clock=self.clock)
            manager.register_executor(job_type.name, executor)
        self._manager = manager
        log.info("worker.started", pool=self.pool.value, concurrency=self.concurrency)
        await manager.run(
            dequeue_timeout=self.dequeue_timeout,
            batch_size=ENDS_TOGETHER,
            max_concurrent_tasks=2 * ENDS_TOGETHER,  # what PgQueuer requires; `_most_taken` is the limit
            shutdown_on_listener_failure=True,
            heartbeat_timeout=self.heartbeat_timeout,
            log_aggregation_interval=timedelta(0),  # we do not use its statistics table
        )

    def _most_taken(self) -> int:
        """
        How many jobs PgQueuer may have taken for this worker; `RunningJobs` limits how many run.

        Twice as many as run, so that the next ones are at hand when a place is free, and as many as ended lately: those
        would be taken one by one otherwise. More would keep them from other workers.
        """
        return 2 * self.concurrency + self._running.recent.count()

    def _timers(self) -> list[BackgroundTask]:
        repeated = [(job_type, job_type.every) for job_type in self.registry if job_type.every is not None]
        timers = [BackgroundTask(f"timer of {t.name}", partial(self._repeat, t, every)) for t, every in repeated]
        return [BackgroundTask("heartbeat of jobs", self._confirm_jobs), *timers]

    async def _confirm_jobs(self) -> None:
        """Confirm all taken jobs four times within the heartbeat timeout: a few statements may fail or be late."""
        while True:
            await self.clock.sleep(self.heartbeat_timeout.total_seconds() / 4)
            if self._manager is not None:
                with contextlib.suppress(*UNREACHABLE):
                    await self._manager.confirm_jobs()

    async def _repeat(self, job_type: JobType, every: timedelta) -> None:
        """Add *job_type* at its interval; by the dedupe key all processes together add one."""
        while True:
            with contextlib.suppress(StoreUnavailableError):
                async with self.database.connection() as connection:
                    wanted = NewJob(type=job_type.name, payload={}, dedupe_key=f"every:{job_type.name}")
                    await self.queue.add([wanted]).run(connection)
            await self.clock.sleep(every.total_seconds())
