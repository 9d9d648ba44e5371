"""What the service answers about its jobs and its own health."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One background job."""

    id: str
    type: str
    status: str
    priority: str
    attempts: int
    max_attempts: int
    created_at: datetime
    processed_at: datetime | None = None
    completed_at: datetime | None = None
    next_retry_at: datetime | None = None
    error: str | None = None
    payload: dict[str, object] = {}


class JobPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of jobs."""

    jobs: list[Job]


class JobStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The queue in numbers."""

    total_jobs: int
    pending_jobs: int
    processing_jobs: int
    completed_jobs: int
    failed_jobs: int
    jobs_by_type: dict[str, int] = {}
    oldest_pending_age_ms: int | None = None
    paused: bool = False
    """Whether no job begins until processing is resumed."""
    paused_at: datetime | None = None
    paused_by: str | None = None


class Processing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether jobs are processed."""

    paused: bool
    paused_at: datetime | None = None
    paused_by: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How every part of the service is; `uptime` is in seconds."""

    status: str
    timestamp: datetime
    uptime: float
    version: str
    services: dict[str, str] = {}
    dependencies: dict[str, object] = {}

    @property
    def is_healthy(self) -> bool:
        """Whether every part works."""
        return self.status == "healthy"
