"""Pauses before retries, and when a service that answers is not working."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.timing import delay, is_observing, jittered, observation_limit

SECOND = timedelta(seconds=1)


def test_a_jobs_retries_come_after_100_ms_doubling_to_five_minutes() -> None:
    """The sequence of the contract."""
    waits = [delay(attempt, first=0.1, most=300.0) for attempt in (1, 2, 3, 4, 12, 13, 1000)]

    assert waits == [0.1, 0.2, 0.4, 0.8, 204.8, 300.0, 300.0]


def test_attempts_are_counted_from_one() -> None:
    """An off-by-one here would halve every wait unseen."""
    with pytest.raises(ValueError, match="counted from 1"):
        delay(0, first=1, most=2)


@given(st.integers(1, 10**6), st.floats(0.001, 100), st.floats(0.001, 1000), st.floats(1, 10))
def test_a_wait_never_shrinks_and_never_passes_its_limit(
    attempt: int, first: float, most: float, factor: float
) -> None:
    """For any numbers whatever."""
    wait = delay(attempt, first=first, most=most, factor=factor)

    assert wait <= most
    assert wait <= delay(attempt + 1, first=first, most=most, factor=factor)


@given(st.floats(0, 1000), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_within_its_spread(seconds: float, spread: float, jitter: float) -> None:
    """Up to the spread in either direction, and no further."""
    moved = jittered(seconds, spread=spread, jitter=jitter)

    assert seconds * (1 - spread) - 1e-9 <= moved <= seconds * (1 + spread) + 1e-9


@pytest.mark.parametrize(
    ("poll", "every", "limit"),
    [(30, None, 90), (30, 2, 90), (1, None, 32), (30, 200, 430)],
    ids=["idle", "moving", "short interval", "large account on a small rate limit"],
)
def test_an_observation_may_be_two_intervals_and_thirty_seconds_old(poll: int, every: int | None, limit: int) -> None:
    """The interval that counts is the leader's, where the rate limit makes it longer than the setting."""
    assert observation_limit(poll * SECOND, None if every is None else every * SECOND) == limit * SECOND


@pytest.mark.parametrize(
    ("age", "uptime", "observing"),
    [(90, 1000, True), (91, 1000, False), (91, 1, False), (None, 90, True), (None, 91, False)],
)
def test_a_service_that_never_observed_has_as_long_for_the_first_time(
    age: int | None,
    uptime: int,
    observing: bool,  # noqa: FBT001  # a value of the table
) -> None:
    """Restarting a process does not make an old observation new."""
    assert is_observing(None if age is None else age * SECOND, uptime * SECOND, 90 * SECOND) is observing
