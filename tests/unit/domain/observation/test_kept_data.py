"""Until when the data of a stopped machine is kept, and when users are warned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.provider.sightings import shown

from corral.domain.observation.kept_data import DataNotice, due, next_at, observed, warning
from corral.domain.observation.sighting import Sighting

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
UNTIL = NOW + 7 * 24 * HOUR
FIRST, SECOND = 48 * HOUR, 6 * HOUR


def notice(stage: timedelta, until: datetime = UNTIL) -> DataNotice:
    return DataNotice(until=until, stage=stage)


@pytest.mark.parametrize(
    ("left", "given", "expected"),
    [
        (49 * HOUR, None, None),
        (48 * HOUR, None, FIRST),
        (47 * HOUR, FIRST, None),
        (6 * HOUR, FIRST, SECOND),
        (5 * HOUR, SECOND, None),
        (3 * HOUR, None, SECOND),
        (timedelta(0), FIRST, None),
        (-HOUR, None, None),
    ],
)
def test_each_warning_is_due_once(left: timedelta, given: timedelta | None, expected: timedelta | None) -> None:
    found = due(UNTIL, None if given is None else notice(given), UNTIL - left)

    assert found == (None if expected is None else notice(expected))


def test_an_earlier_date_is_announced_again_and_a_later_one_is_not() -> None:
    at = UNTIL - 40 * HOUR

    assert due(UNTIL - 10 * HOUR, notice(FIRST), at) == notice(FIRST, UNTIL - 10 * HOUR)
    assert due(UNTIL + 5 * HOUR, notice(FIRST), at) is None
    assert due(UNTIL + 5 * HOUR, notice(FIRST), UNTIL) == notice(SECOND, UNTIL + 5 * HOUR)


def test_the_next_warning_is_known_ahead() -> None:
    assert next_at(UNTIL, None, NOW) == UNTIL - FIRST
    assert next_at(UNTIL, None, UNTIL - FIRST) == UNTIL - FIRST
    assert next_at(UNTIL, notice(FIRST), UNTIL - FIRST) == UNTIL - SECOND
    assert next_at(UNTIL, notice(SECOND), UNTIL - SECOND) is None
    assert next_at(UNTIL, None, UNTIL) is None


def test_a_date_counts_only_while_the_machine_is_seen_stopped() -> None:
    """A running machine may carry the date of its last stop."""
    for sighting in set(Sighting) - {Sighting.EXITED}:
        assert observed(UNTIL, shown("m-1", sighting, data_kept_until=UNTIL), was_stopped=True) is None


def test_a_listing_without_a_date_does_not_remove_it_and_an_old_one_is_not_taken_over() -> None:
    silent = shown("m-1", Sighting.EXITED, data_kept_until=None)

    assert observed(UNTIL, silent, was_stopped=True) == UNTIL
    assert observed(UNTIL, silent, was_stopped=False) is None


@pytest.mark.parametrize(("by", "is_new"), [(timedelta(minutes=9), False), (-HOUR, True), (HOUR, True)])
def test_a_date_that_moves_by_minutes_is_the_same(by: timedelta, is_new: bool) -> None:  # noqa: FBT001
    stopped = shown("m-1", Sighting.EXITED, data_kept_until=UNTIL + by)

    assert observed(UNTIL, stopped, was_stopped=True) == (UNTIL + by if is_new else UNTIL)


def test_the_warning_says_when_and_what_is_left() -> None:
    assert "at 2030-01-08 00:00 UTC, in 48 h:" in warning(notice(FIRST), UNTIL - FIRST)
    assert "in 30 min:" in warning(notice(SECOND), UNTIL - HOUR / 2)
