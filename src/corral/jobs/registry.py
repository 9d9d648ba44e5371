"""
Job types: the handler, the priority and the number of retries of each.

A handler may run twice for one job (a worker may die between the effect and the record of it), so it first reads what
is already recorded. It returns when done; any error means "try again" until the retries are used up; `RequeueError` and
outages mean "later" and count as no attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Final, NewType

JobId = NewType("JobId", int)
Payload = Mapping[str, object]

CORRELATION: Final = "correlationId"
"""The field of a payload with the correlation id of the request that caused the job; its log lines have the same id."""

TRACEPARENT: Final = "traceparent"
"""The field of a payload with the span that caused the job, if it is traced (W3C Trace Context)."""

RELEASE: Final = "release_instance"
"""The job type of reconciles that stop or delete: urgent, and a type of its own so that workers reserve places."""


class Priority(IntEnum):
    """The order of waiting jobs; the gaps leave room for more."""

    LOW = 0
    NORMAL = 10
    HIGH = 20
    FIRST = 30
    """Before every create, and shown as high: the job is about a machine that is already billed."""
    URGENT = 40
    """
    Stops and deletes: before all other jobs, also when a job is put back, and with places of their own.

    Every second such a job waits is billed. Shown as high.
    """


class JobPool(StrEnum):
    """Which workers run a job; each pool has slots of its own."""

    MAIN = "main"
    """Reconciles and maintenance."""
    WEBHOOKS = "webhooks"
    """Webhook sends. A receiver that hangs must not take the places in which instances are created and deleted."""


StepAside = Callable[[], AbstractAsyncContextManager[None]]
"""Frees the place that a job holds in its worker for the length of a block, and waits for one again at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of one job."""

    id: JobId
    type: str
    payload: Payload
    attempt: int
    """1 at the first run; a requeue does not raise it."""
    first: bool = False
    """Whether it was started before earlier jobs, and so should be quick."""
    aside: StepAside = nullcontext
    """For a wait that is neither work of this process nor a call: for a commit that many jobs share."""


Handler = Callable[[JobRun], Awaitable[None]]


class RequeueError(Exception):
    """Raised by a handler to be called again after a while; it has not failed."""

    def __init__(self, after: timedelta, because: str) -> None:
        super().__init__(because)
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """One type of job."""

    name: str
    handler: Handler
    priority: Priority = Priority.NORMAL
    retries: int = 3
    """Runs after the first failed one; then the job has failed for good and is kept to be inspected."""
    pool: JobPool = JobPool.MAIN
    every: timedelta | None = None
    """Added at this interval, once for all processes together; None: only by `JobQueue.add`."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The types of job one service knows."""

    _types: dict[str, JobType] = field(default_factory=dict)

    def add(self, job_type: JobType) -> None:
        """Register *job_type*; raises ValueError when its name is taken."""
        if job_type.name in self._types:
            raise ValueError(f"job type {job_type.name!r} is registered twice")
        self._types[job_type.name] = job_type

    def get(self, name: str) -> JobType | None:
        """The type called *name*, if there is one."""
        return self._types.get(name)

    def of_pool(self, pool: JobPool) -> Registry:
        """The types of job that run in *pool*."""
        return Registry({name: job_type for name, job_type in self._types.items() if job_type.pool is pool})

    def __iter__(self) -> Iterator[JobType]:
        return iter(self._types.values())
