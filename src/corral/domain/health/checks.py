"""
When a running instance is healthy, and how long to wait for it.

A *check* asks every endpoint once, all at the same time. A *round* is up to `retry_attempts` + 1 checks with growing
pauses; rounds follow each other until the instance is healthy or `max_wait_ms` has passed since the first check.
A `HealthReport` holds the result of the last check and the number of checks, so that another process can continue.
The requests themselves are sent by `health/probe.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from corral.domain.errors import Failure
from corral.domain.health.error_page import PHRASES, error_page_phrase
from corral.domain.health.network_faults import FaultCategory, status_category
from corral.domain.observation.sighting import Endpoint
from corral.domain.placement.catalog import PortKind
from corral.domain.timing import delay, jittered

BODY_LIMIT = 64 * 1024
"""Bytes of a response that are read; error pages are far smaller, and large bodies stay cheap."""

JITTER = 0.5
"""Share by which pauses vary, so that instances created together are not checked at the same moment."""

_LOGIN_STATUSES = (401, 403)
"""A login page shows that the application runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheckSpec:
    """How an instance is checked; `domain/requests/health_check.py` has the range of each number."""

    timeout_ms: int = 10_000
    retry_attempts: int = 3
    retry_delay_ms: int = 2000
    max_wait_ms: int = 300_000
    target_port: int | None = None
    """Check this port alone; None checks all."""
    path: str = "/"
    """Path of the GET, below the path the endpoint's own address may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailure:
    """Why an endpoint is not healthy; the message is public and carries no address."""

    category: FaultCategory
    message: str

    @property
    def retryable(self) -> bool:
        """Whether a later check may succeed."""
        return self.category.retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointHealth:
    """The result of the last check of one endpoint."""

    port: int
    kind: PortKind
    address: str | None
    response_time_ms: int
    last_checked_at: datetime
    error: ProbeFailure | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether the last check succeeded."""
        return self.error is None

    @property
    def status(self) -> str:
        """The status as responses show it."""
        return "healthy" if self.is_healthy else "unhealthy"


class OverallHealth(StrEnum):
    """All endpoints together; only HEALTHY makes an instance ready."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The last check of an instance in full, and the number of checks so far."""

    endpoints: tuple[EndpointHealth, ...]
    first_checked_at: datetime
    last_checked_at: datetime
    checks: int

    @property
    def overall(self) -> OverallHealth:
        """HEALTHY also when there was nothing to check."""
        healthy = sum(endpoint.is_healthy for endpoint in self.endpoints)
        if healthy == len(self.endpoints):
            return OverallHealth.HEALTHY
        return OverallHealth.PARTIAL if healthy else OverallHealth.UNHEALTHY

    @property
    def errors(self) -> tuple[ProbeFailure, ...]:
        """The present errors, in the order of the endpoints."""
        return tuple(endpoint.error for endpoint in self.endpoints if endpoint.error is not None)


def checkable(endpoints: Iterable[Endpoint], target_port: int | None) -> tuple[Endpoint, ...]:
    """The endpoints to check: not UDP, which need not respond, and only *target_port* when it is given."""
    return tuple(
        endpoint for endpoint in endpoints if endpoint.kind is not PortKind.UDP and target_port in (None, endpoint.port)
    )


def unmapped(endpoints: Iterable[Endpoint], spec: HealthCheckSpec) -> Failure | None:
    """The error of a check whose target port does not exist: without it the instance would be ready unchecked."""
    ports = sorted(endpoint.port for endpoint in endpoints)
    if spec.target_port is None or spec.target_port in ports:
        return None
    known = f"mapped are {', '.join(map(str, ports))}" if ports else "no port is mapped"
    message = f"targetPort {spec.target_port} is not mapped, so it cannot be checked: {known}"
    return Failure(code="HEALTH_CHECK_FAILED", message=message)


def answer_failure(status: int, content_type: str | None, body: bytes) -> ProbeFailure | None:
    """Why an HTTP response, of which *body* is the beginning, is unhealthy; None when it is healthy."""
    if not (200 <= status <= 399 or status in _LOGIN_STATUSES):  # noqa: PLR2004  # success and redirection
        return ProbeFailure(category=status_category(status), message=f"answered with status {status}")
    phrase = error_page_phrase(content_type, body[:BODY_LIMIT])
    if phrase is None:
        return None
    return ProbeFailure(
        category=PHRASES[phrase], message=f'answered with status {status}, but the page says "{phrase}"'
    )


def judge(report: HealthReport, spec: HealthCheckSpec, *, now: datetime, jitter: float) -> timedelta | Failure | None:
    """
    What follows from *report*: None if it is healthy, the pause before the next check, or the failure if time is up.

    *jitter* is in [0, 1). A permanent error does not end the wait, because a page that is missing while an application
    loads may appear later. It only decides the error code when the time is over.
    """
    if report.overall is OverallHealth.HEALTHY:
        return None
    left = report.first_checked_at + timedelta(milliseconds=spec.max_wait_ms) - now
    if left > timedelta(0):
        return min(left, timedelta(seconds=pause_seconds(spec, checks=report.checks, jitter=jitter)))
    lasting = not all(error.retryable for error in report.errors)
    return Failure(
        code="HEALTH_CHECK_FAILED" if lasting else "HEALTH_CHECK_TIMEOUT",
        message=f"not healthy after {spec.max_wait_ms // 1000} s: {summary(report.endpoints)}",
    )


def pause_seconds(spec: HealthCheckSpec, *, checks: int, jitter: float) -> float:
    """
    How long to wait after check number *checks*, the first being 1.

    Within a round the pause doubles; a new round begins with the first pause again, so that an instance that needs
    minutes becomes ready soon after its application responds.
    """
    step = (checks - 1) % (spec.retry_attempts + 1)
    retry = 1 if step == spec.retry_attempts else step + 1
    return jittered(
        delay(retry, first=spec.retry_delay_ms / 1000, most=spec.max_wait_ms / 1000), spread=JITTER, jitter=jitter
    )


def summary(endpoints: Sequence[EndpointHealth]) -> str:
    """The unhealthy endpoints in one line, for a person."""
    return "; ".join(
        f"port {endpoint.port}: {endpoint.error.message}" for endpoint in endpoints if endpoint.error is not None
    )
