"""
Every type of job: who handles it, how urgent it is, how often it may fail.

A handler may run twice for one job (a worker may die between the effect and the record of it), so it first reads what
is already recorded. It raises nothing when done; any error means "try again" until the retries are used up;
`RequeueError` and outages mean "later" and cost no attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Final, NewType

JobId = NewType("JobId", int)
Payload = Mapping[str, object]

CORRELATION: Final = "correlationId"
"""The field of a payload that names the request which caused the job; its log lines carry the same id."""


RELEASE: Final = "release_instance"
"""The job type of passes that stop or delete: urgent, and a type of its own so that workers keep places for it."""


class Priority(IntEnum):
    """Which of two waiting jobs goes first; the gaps leave room."""

    LOW = 0
    NORMAL = 10
    HIGH = 20
    FIRST = 30
    """Before every create, and shown as high: it is about a machine that somebody pays for already."""
    URGENT = 40
    """
    Stops and deletes: before everything, also when a job is put back, and with places of their own.

    Every second such a job waits is billed. Shown as high.
    """


class JobPool(StrEnum):
    """Which workers run a job; each pool has slots of its own."""

    MAIN = "main"
    """What instances need, and housekeeping."""
    WEBHOOKS = "webhooks"
    """Sends. A receiver that hangs must not take the slots in which instances are created and deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of one job."""

    id: JobId
    type: str
    payload: Payload
    attempt: int
    """1 at the first run; a later look does not raise it."""
    first: bool = False
    """Whether it overtook others, and so should be quick."""


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
    """Runs after the first failed one; then the job is failed for good and kept for a look."""
    pool: JobPool = JobPool.MAIN
    every: timedelta | None = None
    """Enqueued again and again at this interval, once for all processes together. None: only when asked."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The types of job one service knows."""

    _types: dict[str, JobType] = field(default_factory=dict)

    def add(self, job_type: JobType) -> None:
        """Make *job_type* known; a name is taken once."""
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
