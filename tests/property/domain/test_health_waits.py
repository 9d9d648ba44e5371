"""Laws of the wait for a healthy instance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import Failure
from corral.domain.health.checks import (
    EndpointHealth,
    HealthCheckSpec,
    HealthReport,
    ProbeFailure,
    answer_failure,
    judge,
    pause_seconds,
)
from corral.domain.health.network_faults import FaultCategory
from corral.domain.placement.catalog import PortKind

START = datetime(2030, 1, 1, tzinfo=UTC)
SPECS = st.builds(
    HealthCheckSpec,
    timeout_ms=st.integers(1000, 300_000),
    retry_attempts=st.integers(0, 10),
    retry_delay_ms=st.integers(100, 30_000),
    max_wait_ms=st.integers(30_000, 1_800_000),
)
ROLLS = st.floats(0, 1, exclude_max=True)
ERRORS = st.none() | st.sampled_from(FaultCategory).map(lambda category: ProbeFailure(category=category, message="no"))


@st.composite
def reports(draw: st.DrawFn) -> HealthReport:
    errors = draw(st.lists(ERRORS, max_size=4))
    return HealthReport(
        endpoints=tuple(
            EndpointHealth(
                port=1, kind=PortKind.HTTP, address="a", response_time_ms=0, last_checked_at=START, error=error
            )
            for error in errors
        ),
        first_checked_at=START,
        last_checked_at=START,
        checks=draw(st.integers(1, 10_000)),
    )


@given(spec=SPECS, checks=st.integers(1, 10_000), jitter=ROLLS)
def test_a_pause_stays_within_half_of_its_length(spec: HealthCheckSpec, checks: int, jitter: float) -> None:
    """The jitter is at most 50 %, and no pause is zero: a check that fails at once must not become a storm."""
    middle = pause_seconds(spec, checks=checks, jitter=0.5)

    assert spec.retry_delay_ms / 1000 <= middle
    assert 0.5 * middle <= pause_seconds(spec, checks=checks, jitter=jitter) <= 1.5 * middle


@given(report=reports(), spec=SPECS, waited_ms=st.integers(0, 2_000_000), jitter=ROLLS)
def test_the_wait_ends_at_its_limit_and_not_before(
    report: HealthReport, spec: HealthCheckSpec, waited_ms: int, jitter: float
) -> None:
    """Ready exactly when all are healthy; given up exactly when the time is over; else another check in time."""
    ruling = judge(report, spec, now=START + timedelta(milliseconds=waited_ms), jitter=jitter)

    assert (ruling is None) == (not report.errors)
    if isinstance(ruling, Failure):
        assert waited_ms >= spec.max_wait_ms
    if isinstance(ruling, timedelta):
        assert timedelta(0) < ruling <= timedelta(milliseconds=spec.max_wait_ms - waited_ms)


@given(
    status=st.integers(100, 999), content_type=st.none() | st.text(), body=st.binary(max_size=300).map(lambda b: b * 9)
)
def test_any_response_gets_a_result(status: int, content_type: str | None, body: bytes) -> None:
    """Nothing an instance sends may break the check, and only accepted statuses can pass."""
    failure = answer_failure(status, content_type, body)

    assert failure is not None or 200 <= status <= 399 or status in (401, 403)
