"""When a service that answers is not working."""

from __future__ import annotations

from datetime import timedelta

import pytest

from corral.domain.liveness import is_observing, observation_limit

SECOND = timedelta(seconds=1)


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
