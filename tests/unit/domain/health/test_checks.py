"""What counts as healthy, and how long to wait for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from corral.domain.errors import Failure
from corral.domain.health.checks import (
    EndpointHealth,
    HealthCheckSpec,
    HealthReport,
    OverallHealth,
    ProbeFailure,
    answer_failure,
    checkable,
    judge,
    pause_seconds,
)
from corral.domain.health.network_faults import FaultCategory
from corral.domain.observation.sighting import Endpoint
from corral.domain.placement.catalog import PortKind

START = datetime(2030, 1, 1, tzinfo=UTC)
MIDDLE = 0.5
"""The roll that leaves a pause as it is."""


def endpoint(port: int, kind: PortKind = PortKind.HTTP) -> Endpoint:
    return Endpoint(port=port, kind=kind, address=f"host:{port}")


def report(*categories: FaultCategory | None, checks: int = 1) -> HealthReport:
    """A report with one endpoint for each category, None being a healthy one."""
    return HealthReport(
        endpoints=tuple(
            EndpointHealth(
                port=8000 + number,
                kind=PortKind.HTTP,
                address="host",
                response_time_ms=1,
                last_checked_at=START,
                error=None if category is None else ProbeFailure(category=category, message=f"is {category}"),
            )
            for number, category in enumerate(categories)
        ),
        first_checked_at=START,
        last_checked_at=START,
        checks=checks,
    )


@pytest.mark.parametrize("status", [200, 204, 301, 302, 399, 401, 403])
def test_an_answer_that_shows_life_is_healthy(status: int) -> None:
    """A login page or a redirect to one is alive."""
    assert answer_failure(status, "text/html", b"<h1>Welcome</h1>") is None


@pytest.mark.parametrize(
    ("status", "category", "retryable"),
    [
        (400, FaultCategory.CLIENT_ERROR, False),
        (404, FaultCategory.CLIENT_ERROR, False),
        (408, FaultCategory.TIMEOUT, True),
        (429, FaultCategory.SERVICE_UNAVAILABLE, True),
        (500, FaultCategory.SERVER_ERROR, True),
        (502, FaultCategory.BAD_GATEWAY, True),
        (503, FaultCategory.SERVICE_UNAVAILABLE, True),
        (504, FaultCategory.TIMEOUT, True),
        (520, FaultCategory.SERVER_ERROR, True),
        (199, FaultCategory.INVALID_RESPONSE, False),
        (600, FaultCategory.INVALID_RESPONSE, False),
    ],
)
def test_any_other_status_is_a_failure_with_a_category(
    status: int, category: FaultCategory, *, retryable: bool
) -> None:
    """The category and its retryability are public."""
    failure = answer_failure(status, "text/html", b"")

    assert failure == ProbeFailure(category=category, message=f"answered with status {status}")
    assert retryable == failure.retryable


def test_an_error_page_with_a_good_status_is_a_failure() -> None:
    """The provider's proxy answers before the application listens."""
    failure = answer_failure(200, "text/html", b"<title>502 Bad Gateway</title>")

    assert failure is not None
    assert failure.category is FaultCategory.BAD_GATEWAY
    assert failure.message == 'answered with status 200, but the page says "bad gateway"'


def test_udp_is_not_checked() -> None:
    """Silence is all one can expect of it."""
    kinds = [endpoint(1, PortKind.UDP), endpoint(2, PortKind.TCP), endpoint(3), endpoint(4, PortKind.HTTPS)]

    assert [one.port for one in checkable(kinds, None)] == [2, 3, 4]


def test_a_target_port_narrows_the_check_to_it() -> None:
    """The other ports may serve something unrelated."""
    assert (endpoint(3),) == checkable([endpoint(2), endpoint(3)], 3)


@pytest.mark.parametrize(
    ("categories", "overall"),
    [
        ((), OverallHealth.HEALTHY),
        ((None, None), OverallHealth.HEALTHY),
        ((None, FaultCategory.TIMEOUT), OverallHealth.PARTIAL),
        ((FaultCategory.TIMEOUT,), OverallHealth.UNHEALTHY),
    ],
)
def test_the_overall_health_sums_the_endpoints_up(
    categories: tuple[FaultCategory | None, ...], overall: OverallHealth
) -> None:
    """An instance with nothing to check is ready."""
    assert overall is report(*categories).overall


def test_a_healthy_report_passes_however_late() -> None:
    """What works is ready, whatever the clock says."""
    assert judge(report(None), HealthCheckSpec(), now=START + timedelta(days=1), jitter=MIDDLE) is None


def test_a_lasting_error_does_not_end_the_wait() -> None:
    """An application that loads answers 404 before it answers 200."""
    ruling = judge(report(FaultCategory.CLIENT_ERROR), HealthCheckSpec(), now=START, jitter=MIDDLE)

    assert ruling == timedelta(seconds=2)


def test_the_last_pause_ends_with_the_wait() -> None:
    """So that the last check happens when the time is over, not after it."""
    now = START + timedelta(seconds=299)

    assert judge(report(FaultCategory.TIMEOUT), HealthCheckSpec(), now=now, jitter=MIDDLE) == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("categories", "code"),
    [
        ((FaultCategory.CONNECTION_REFUSED,), "HEALTH_CHECK_TIMEOUT"),
        ((FaultCategory.TIMEOUT, None), "HEALTH_CHECK_TIMEOUT"),
        ((FaultCategory.CLIENT_ERROR,), "HEALTH_CHECK_FAILED"),
        ((FaultCategory.TIMEOUT, FaultCategory.SSL_ERROR), "HEALTH_CHECK_FAILED"),
    ],
)
def test_the_last_errors_decide_what_the_failure_is_called(
    categories: tuple[FaultCategory | None, ...], code: str
) -> None:
    """Too slow, or wrong: the user does different things about it."""
    ruling = judge(report(*categories), HealthCheckSpec(), now=START + timedelta(seconds=300), jitter=MIDDLE)

    assert isinstance(ruling, Failure)
    assert code == ruling.code
    assert ruling.message.startswith("not healthy after 300 s: port 8000: is ")


def test_pauses_double_within_a_round_and_restart_with_the_next() -> None:
    """An instance that needs minutes is still noticed soon after it comes up."""
    spec = HealthCheckSpec(retry_attempts=3, retry_delay_ms=2000)

    pauses = [pause_seconds(spec, checks=check, jitter=MIDDLE) for check in range(1, 9)]

    assert pauses == [2, 4, 8, 2, 2, 4, 8, 2]


def test_a_report_survives_being_stored() -> None:
    """Another process continues the wait from the stored state."""
    reported = report(None, FaultCategory.SSL_ERROR, checks=7)

    assert reported == msgspec.json.decode(msgspec.json.encode(reported), type=HealthReport)
