"""
Running one job: its handler, in one of a limited number of places, and what its result means.

A failure is counted only when it is the job's own: an outage of the provider or the database, a requeue and a stop of
this worker put the job back as if it had not run.

A process that serves requests and runs jobs has one core for both. A caller notices a delay of a tenth of a second; a
job may start a second later. So while there are many callers, fewer jobs run, but never none.

Urgent jobs (stops and deletes) have a few places more, and are started before other waiting jobs: those may hold every
place for as long as the provider takes to answer.

A place is for work and calls. A job that waits for a commit which many jobs share gives its place to the next meanwhile
(`StepAside`) and continues before new jobs begin: the more jobs wait, the more share a commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from enum import Enum, auto
from typing import Final

import msgspec
import structlog
from pgqueuer.errors import RetryRequested
from pgqueuer.executors import AbstractEntrypointExecutor, EntrypointExecutorParameters
from pgqueuer.models import Context, Job

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.base.recent_count import RecentCount
from corral.domain.errors import CloudTransientError, StoreUnavailableError
from corral.domain.timing import delay
from corral.jobs.pause import Pause
from corral.jobs.pgqueuer_adapter import RequeueRequested
from corral.jobs.registry import CORRELATION, JobId, JobRun, JobType, Priority, RequeueError, StepAside

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 300.0
OUTAGE_PAUSE_SECONDS = 5.0
"""The delay of a job after an outage of the provider or the database, unless the error says another."""
SHARE_IN_A_CROWD: Final = 0.2
"""Of the places, at least one. More, and callers wait for jobs; fewer, and long load from callers stops all jobs."""
URGENT_PLACES: Final = 4
"""
Places for urgent jobs beside all others, each with a database connection.

Without them a stop or delete waits until a create or probe ends, up to half a minute each; many more only cost
connections, because each of these jobs is one short call.
"""

RECENT_SECONDS: Final = 0.25
MOST_RECENT: Final = 100
"""
A worker takes as many more jobs as it ended within these seconds, but no more than this.

More or longer, and jobs wait in a worker that has become slow while another is idle; fewer or shorter, and a busy
worker asks the queue more often than it needs to.
"""


class _Turn(Enum):
    """The order in which jobs that wait for a place get one."""

    URGENT = auto()
    CONTINUED = auto()
    """It stepped aside, and may hold the lock of an instance."""
    NEW = auto()


class AdaptiveSemaphore:
    """Limits how many jobs run at once; waiting jobs get a place in the order of their turns, then by arrival."""

    def __init__(self, most: int, *, is_crowded: Callable[[], bool] = lambda: False) -> None:
        self._most = most
        self._most_in_a_crowd = max(1, int(most * SHARE_IN_A_CROWD))
        self._is_crowded = is_crowded
        self._taken = 0
        self._waiting: dict[_Turn, deque[asyncio.Future[None]]] = {turn: deque() for turn in _Turn}

    @asynccontextmanager
    async def place(self, *, is_urgent: bool = False) -> AsyncGenerator[StepAside]:
        """Wait for a place and hold it for the length of the block, except while its holder steps aside."""
        await self.enter(_Turn.URGENT if is_urgent else _Turn.NEW)
        held = _Place(self, _Turn.URGENT if is_urgent else _Turn.CONTINUED)
        try:
            yield lambda: held
        finally:
            if held.is_held:
                self.leave()

    async def enter(self, turn: _Turn) -> None:
        """Wait for a place and take it."""
        queue = self._waiting[turn]
        if not queue and self._has_room(turn):
            self._taken += 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                queue.remove(granted)
            else:  # granted and cancelled in the same tick: release the place
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back."""
        self._taken -= 1
        for turn, queue in self._waiting.items():
            while queue and self._has_room(turn):
                self._taken += 1
                queue.popleft().set_result(None)

    def _has_room(self, turn: _Turn) -> bool:
        most = self._most_in_a_crowd if self._is_crowded() else self._most
        return self._taken < most + (URGENT_PLACES if turn is _Turn.URGENT else 0)


class _Place:
    """A place that its holder leaves for the length of a block; cancelled in the block, it does not come back."""

    __slots__ = ("_places", "_turn", "is_held")

    def __init__(self, places: AdaptiveSemaphore, turn: _Turn) -> None:
        self._places = places
        self._turn = turn
        self.is_held = True

    async def __aenter__(self) -> None:
        self.is_held = False
        self._places.leave()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Exception):
            await self._places.enter(self._turn)
            self.is_held = True


class RunningJobs:
    """The handlers running now: limited in number, and cancelled together when the worker stops."""

    def __init__(self, places: AdaptiveSemaphore, clock: Clock, pause: Pause | None = None) -> None:
        self._places = places
        self._pause = pause or Pause()
        self._tasks: set[asyncio.Task[object]] = set()
        self._abandoned = False
        self.recent = RecentCount(clock, seconds=RECENT_SECONDS, most=MOST_RECENT)
        """Jobs that ended lately."""

    def abandon(self) -> int:
        """Cancel every running handler, and let no other begin; returns how many were running."""
        self._abandoned = True
        for task in self._tasks:
            task.cancel()
        return len(self._tasks)

    @asynccontextmanager
    async def place(self, task: asyncio.Task[object], *, is_urgent: bool) -> AsyncGenerator[StepAside]:
        """Hold a place for *task*, the current one; raises RequeueRequested when paused or cancelled by `abandon`."""
        if self._abandoned:
            raise RequeueRequested(timedelta(0), "its worker is stopping")
        self._tasks.add(task)
        try:
            async with self._places.place(is_urgent=is_urgent) as aside:
                if self._pause.is_on:
                    raise RequeueRequested(timedelta(0), "processing is paused")
                yield aside
        except asyncio.CancelledError:
            if not self._abandoned:
                raise
            # PgQueuer would delete the job of a cancelled task; another worker must run it.
            task.uncancel()
            raise RequeueRequested(timedelta(0), "its worker was stopped") from None
        finally:
            self._tasks.discard(task)
            self.recent.note()


class Executor(AbstractEntrypointExecutor):
    """Runs the handler of one job type for PgQueuer."""

    def __init__(self, job_type: JobType, running: RunningJobs, *, metrics: Metrics, clock: Clock) -> None:
        super().__init__(
            EntrypointExecutorParameters(func=_unused, concurrency_limit=0, on_failure="hold"),
        )
        self._type = job_type
        self._running = running
        self._metrics = metrics
        self._clock = clock
        for outcome in ("completed", "retried", "postponed", "failed"):
            metrics.jobs.labels(job_type.name, outcome)

    async def execute(self, job: Job, context: Context) -> None:  # noqa: ARG002  # PgQueuer's signature
        """Run *job* once; returns when it is done, else raises the error by which PgQueuer requeues or fails it."""
        run = JobRun(
            id=JobId(job.id),
            type=self._type.name,
            payload=msgspec.json.decode(job.payload or b"{}"),
            attempt=job.attempts + 1,
            first=job.priority >= Priority.FIRST,
        )
        task = asyncio.current_task()
        if task is None:  # pragma: no cover  # a coroutine always runs in a task
            raise RuntimeError("a job must run in a task")
        began = self._clock.monotonic()
        with structlog.contextvars.bound_contextvars(**_log_fields(run)):
            try:
                async with self._running.place(task, is_urgent=job.priority >= Priority.URGENT) as aside:
                    await self._type.handler(replace(run, aside=aside))
            except Exception as error:
                raised = self._error_for_pgqueuer(run, error)
                is_requeue, is_retry = isinstance(raised, RequeueRequested), isinstance(raised, RetryRequested)
                self._count("postponed" if is_requeue else "retried" if is_retry else "failed", began)
                raise raised from error
            self._count("completed", began)

    def _error_for_pgqueuer(self, run: JobRun, error: Exception) -> Exception:
        """RequeueRequested for a run that does not count, RetryRequested for a retry, *error* for a final failure."""
        match error:
            case RequeueRequested():
                return error
            case RequeueError():
                return RequeueRequested(error.after, str(error))
            case StoreUnavailableError() | CloudTransientError():
                pause = error.retry_after_seconds
                return RequeueRequested(timedelta(seconds=OUTAGE_PAUSE_SECONDS if pause is None else pause), str(error))
            case _:
                pass
        if run.attempt > self._type.retries:
            log.error("job.failed", attempt=run.attempt, exc_info=error)
            return error
        pause = delay(run.attempt, first=FIRST_RETRY_SECONDS, most=LAST_RETRY_SECONDS)
        log.warning("job.retried", attempt=run.attempt, again_in_seconds=pause, reason=repr(error))
        return RetryRequested(timedelta(seconds=pause), f"{type(error).__name__}: {error}")

    def _count(self, outcome: str, began: float) -> None:
        self._metrics.jobs.labels(self._type.name, outcome).inc()
        self._metrics.job_seconds.labels(self._type.name).observe(self._clock.monotonic() - began)


def _log_fields(run: JobRun) -> dict[str, object]:
    """The fields of every log line of this run."""
    caused_by = run.payload.get(CORRELATION)
    return {"job_id": run.id, "job_type": run.type} | ({} if caused_by is None else {"correlation_id": caused_by})


async def _unused(_job: Job) -> None:
    """PgQueuer requires a function; `Executor` runs the registered handler instead."""
