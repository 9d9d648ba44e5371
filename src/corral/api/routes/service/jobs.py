"""Routes that list, pause and remove background jobs."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

import msgspec
from litestar import Request, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from corral.api.http.bodies import filled
from corral.api.http.context import context_of
from corral.api.http.parameters import PRINTABLE
from corral.api.middleware.auth import ADMIN, VIEWER
from corral.domain.errors import NotFoundError
from corral.domain.timing import iso
from corral.jobs.pause import PauseState
from corral.jobs.queue import JobQueue, JobStatus, JobView
from corral.jobs.registry import JobId, Priority

DEFAULT_AGE_MS = 24 * 60 * 60 * 1000


class PriorityWord(StrEnum):
    """Priorities as they are written."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class JobDetails(msgspec.Struct, rename="camel"):
    """One job."""

    id: str
    type: str
    status: JobStatus
    priority: str
    attempts: int
    max_attempts: int
    created_at: str
    processed_at: str | None
    completed_at: str | None
    next_retry_at: str | None
    error: str | None
    payload: dict[str, object]


class JobList(msgspec.Struct):
    """One page of jobs, newest first."""

    jobs: list[JobDetails]
    limit: int
    offset: int


class JobStats(msgspec.Struct, rename="camel"):
    """The queue in numbers."""

    total_jobs: int
    pending_jobs: int
    processing_jobs: int
    completed_jobs: int
    failed_jobs: int
    jobs_by_type: dict[str, int]
    oldest_pending_age_ms: int | None
    paused: bool
    paused_at: str | None
    paused_by: str | None


class Processing(msgspec.Struct, rename="camel"):
    """Whether jobs are processed."""

    paused: bool
    paused_at: str | None
    paused_by: str | None


class CleanupRequest(msgspec.Struct, rename="camel"):
    """What to clear."""

    older_than_ms: Annotated[int, msgspec.Meta(ge=0, le=10 * 365 * DEFAULT_AGE_MS)] = DEFAULT_AGE_MS


class Removed(msgspec.Struct):
    """What was cleared."""

    removed: int


def handlers(queue: JobQueue) -> list[HTTPRouteHandler]:
    """The routes of `/api/jobs`."""

    @get("/api/jobs", summary="List jobs", tags=["jobs"], opt=VIEWER)
    async def list_jobs(  # noqa: PLR0917  # Litestar calls it by name
        job_type: Annotated[str | None, QueryParameter(name="type", max_length=100, pattern=PRINTABLE)] = None,
        status: FromQuery[JobStatus | None] = None,
        priority: FromQuery[PriorityWord | None] = None,
        instance_id: Annotated[str | None, QueryParameter(name="instanceId", max_length=100, pattern=PRINTABLE)] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 100,
        offset: Annotated[int, QueryParameter(ge=0, le=1_000_000)] = 0,
    ) -> JobList:
        """Filter by type, status, priority and instance."""
        found = await queue.find(
            type=job_type,
            status=status,
            priority=None if priority is None else Priority[priority.name],
            instance_id=instance_id,
            limit=limit,
            offset=offset,
        )
        return JobList(jobs=[_details(view) for view in found], limit=limit, offset=offset)

    @get("/api/jobs/stats", summary="Get queue statistics", tags=["jobs"], opt=VIEWER)
    async def get_job_stats() -> JobStats:
        """Counts over waiting, running, failed and (until they are cleaned up) finished jobs."""
        stats, paused = await queue.stats(), await queue.paused()
        age = stats.oldest_pending_age
        return JobStats(
            total_jobs=sum(stats.by_status.values()),
            pending_jobs=stats.by_status[JobStatus.PENDING],
            processing_jobs=stats.by_status[JobStatus.PROCESSING],
            completed_jobs=stats.by_status[JobStatus.COMPLETED],
            failed_jobs=stats.by_status[JobStatus.FAILED],
            jobs_by_type=dict(stats.by_type),
            oldest_pending_age_ms=None if age is None else int(age / timedelta(milliseconds=1)),
            paused=paused.is_paused,
            paused_at=iso(paused.at),
            paused_by=paused.by,
        )

    @get("/api/jobs/{job_id:str}", summary="Get a job", tags=["jobs"], opt=VIEWER)
    async def get_job(job_id: FromPath[str]) -> JobDetails:
        """Until it is cleaned up, a day after it ended."""
        named = re.fullmatch(r"(?:job_)?([0-9]{1,18})", job_id)
        view = await queue.get(JobId(int(named[1]))) if named else None
        if view is None:
            raise NotFoundError(
                f"there is no job {job_id[:40]!r}; finished jobs are removed after 24 hours", code="JOB_NOT_FOUND"
            )
        return _details(view)

    @post("/api/jobs/cleanup", summary="Remove finished jobs", tags=["jobs"], status_code=200, opt=ADMIN)
    async def remove_jobs(
        request: Request[object, object, State], data: JSONBody[CleanupRequest | None] = None
    ) -> Removed:
        """Only jobs that completed or failed longer ago than `olderThanMs` (a day) are removed."""
        context, chosen = context_of(request.scope), data or CleanupRequest()
        age = timedelta(milliseconds=chosen.older_than_ms)
        removed = await queue.cleanup(age, context.success_line(HTTPStatus.OK))
        context.is_audited = True
        return Removed(removed=removed)

    @post("/api/jobs/pause", summary="Pause jobs", tags=["jobs"], status_code=200, opt=ADMIN)
    async def pause_jobs(request: Request[object, object, State]) -> Processing:
        """
        Let no job begin, in any process on this database, until it is resumed; also after a restart.

        Every process follows within a second, and jobs that run may end. What waits: creates, starts, **stops and
        deletes** (machines go on running and are billed), health checks and webhook deliveries. Requests are still
        accepted and recorded, and the provider is still observed.
        """
        context = context_of(request.scope)
        state = await queue.pause(context.success_line(HTTPStatus.OK))
        context.is_audited = True
        return _processing(state)

    @post("/api/jobs/resume", summary="Resume jobs", tags=["jobs"], status_code=200, opt=ADMIN)
    async def resume_jobs(request: Request[object, object, State]) -> Processing:
        """What waited begins within a second, the most urgent first."""
        context = context_of(request.scope)
        state = await queue.resume(context.success_line(HTTPStatus.OK))
        context.is_audited = True
        return _processing(state)

    return [list_jobs, get_job_stats, get_job, remove_jobs, pause_jobs, resume_jobs]


def _processing(state: PauseState) -> Processing:
    return Processing(paused=state.is_paused, paused_at=iso(state.at), paused_by=state.by)


def _details(view: JobView) -> JobDetails:
    payload = dict(view.payload)
    return filled(JobDetails, view, id=f"job_{view.id}", priority=_word(view.priority).value, payload=payload)


def _word(priority: int) -> PriorityWord:
    """Urgent jobs are shown as high: the API has three priorities."""
    return PriorityWord[Priority(min(priority, Priority.HIGH)).name]
