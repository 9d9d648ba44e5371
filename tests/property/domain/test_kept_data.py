"""Warnings about purged data, for any dates and any times at which an instance is reconciled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from corral.domain.observation.kept_data import WARNINGS, DataNotice, due, next_at

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
waits = st.integers(0, 200 * 3600).map(lambda seconds: timedelta(seconds=seconds))


@given(kept=waits, pauses=st.lists(waits, max_size=30))
def test_each_warning_of_a_date_is_given_at_most_once_and_none_too_late(
    kept: timedelta, pauses: list[timedelta]
) -> None:
    now, until, last = BEGIN, BEGIN + kept, None
    stages: list[timedelta] = []
    for pause in pauses:
        now += pause
        if (found := due(until, last, now)) is not None:
            assert now < until
            assert until - found.stage <= now
            stages.append(found.stage)
            last = found

    assert stages == sorted(set(stages), reverse=True)


@given(kept=waits)
def test_a_reconcile_at_each_next_time_gives_every_warning_in_time(kept: timedelta) -> None:
    until = BEGIN + kept
    last: DataNotice | None = None
    at = next_at(until, last, BEGIN)
    given_at: list[datetime] = []
    while at is not None:
        last = due(until, last, at)
        assert last is not None
        given_at.append(at)
        at = next_at(until, last, at)

    ahead = [until - stage for stage in WARNINGS if until - stage > BEGIN]
    late = [BEGIN] if len(ahead) < len(WARNINGS) and until > BEGIN else []
    assert given_at == late + ahead


@given(dates=st.lists(waits, min_size=1, max_size=10), pauses=st.lists(waits, min_size=10, max_size=10))
def test_a_changed_date_is_announced_again_only_if_it_is_earlier_or_a_stage_further(
    dates: list[timedelta], pauses: list[timedelta]
) -> None:
    now, last = BEGIN, None
    for kept, pause in zip(dates, pauses, strict=False):
        now += pause
        found = due(BEGIN + kept, last, now)
        if found is not None and last is not None:
            assert found.until < last.until or found.stage < last.stage
        last = found or last
