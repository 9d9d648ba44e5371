"""The times of a schedule, against a model that watches a clock on the wall minute by minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from corral.domain.leases.lease import Schedule
from corral.domain.leases.schedule import expression_problem, last_time, next_end, next_time

MINUTE = timedelta(minutes=1)
_CHANGES = {
    "Europe/Berlin": [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)],
    "America/New_York": [datetime(2026, 3, 8, 7, tzinfo=UTC), datetime(2026, 11, 1, 6, tzinfo=UTC)],
    "Australia/Lord_Howe": [datetime(2026, 4, 4, 15, tzinfo=UTC), datetime(2026, 10, 3, 15, 30, tzinfo=UTC)],
    "Pacific/Apia": [datetime(2011, 12, 30, 10, tzinfo=UTC)],
    "UTC": [datetime(2026, 2, 28, 23, tzinfo=UTC)],
    "Asia/Kathmandu": [datetime(2028, 2, 29, 12, tzinfo=UTC)],
}
"""Zones with an hour, with half an hour, with a whole day that is skipped, and with none."""


@dataclass(frozen=True)
class _Cron:
    """A cron expression and what it means, made together so that the model parses nothing."""

    minutes: frozenset[int]
    hours: frozenset[int] | None
    weekdays: frozenset[int] | None
    """0 is Monday."""
    days: frozenset[int] | None

    @property
    def text(self) -> str:
        cron_days = None if self.weekdays is None else frozenset((day + 1) % 7 for day in self.weekdays)
        return " ".join((_field(self.minutes), _field(self.hours), _field(self.days), "*", _field(cron_days)))

    def matches(self, wall: datetime) -> bool:
        """Of days and weekdays, either is enough if both are given."""
        if wall.minute not in self.minutes or (self.hours is not None and wall.hour not in self.hours):
            return False
        given = [wall.day in self.days] if self.days is not None else []
        given += [wall.weekday() in self.weekdays] if self.weekdays is not None else []
        return not given or any(given)


def _field(numbers: frozenset[int] | None) -> str:
    return "*" if numbers is None else ",".join(map(str, sorted(numbers)))


def _some(least: int, most: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(least, most), min_size=1, max_size=3)


_CRONS = st.builds(
    _Cron,
    minutes=_some(0, 59) | st.just(frozenset({0, 30})),
    hours=st.none() | _some(0, 23) | _some(0, 4),
    weekdays=st.none() | st.none() | _some(0, 6),
    days=st.none() | st.none() | _some(1, 31),
)
_NIGHTLY = _Cron(frozenset({30}), frozenset({2}), None, None)


def _model(cron: _Cron, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """Watch a clock minute by minute: a time counts when the clock first shows it, or first jumps beyond it."""
    found: list[datetime] = []
    now, highest = begin, begin.astimezone(zone).replace(tzinfo=None)
    while now < end:
        now += MINUTE
        shown = now.astimezone(zone).replace(tzinfo=None)
        fires = False
        while highest < shown:
            highest += MINUTE
            fires = fires or cron.matches(highest)
        if fires:
            found.append(now)
    return found


@given(
    cron=_CRONS,
    place=st.sampled_from([(zone, at) for zone, times in _CHANGES.items() for at in times]),
    hours=st.integers(4, 30),
    offset=st.integers(0, 59),
    looks=st.lists(st.integers(0, 40 * 60 * 60), min_size=1, max_size=4),
)
@example(cron=_NIGHTLY, place=("Europe/Berlin", _CHANGES["Europe/Berlin"][0]), hours=8, offset=0, looks=[28800])
@example(cron=_NIGHTLY, place=("Europe/Berlin", _CHANGES["Europe/Berlin"][1]), hours=8, offset=0, looks=[28800])
def test_times_are_those_of_a_clock_on_the_wall(
    cron: _Cron, place: tuple[str, datetime], hours: int, offset: int, looks: list[int]
) -> None:
    """A skipped time is applied when the clock is set forward, a doubled one once; also looked at in between."""
    name, change = place
    begin, end = change - timedelta(hours=hours, minutes=offset), change + timedelta(hours=40 - hours)
    times = _model(cron, ZoneInfo(name), begin, end)

    found, after = list[datetime](), begin
    while (time := next_time(cron.text, name, after)) is not None and time <= end:
        found.append(time)
        after = time
    assert found == times
    for seconds in looks:
        now = min(begin + timedelta(seconds=seconds), end)
        past, coming = [t for t in times if t <= now], [t for t in times if t > now]
        last, following = last_time(cron.text, name, now), next_time(cron.text, name, now)
        assert (last if last is not None and last > begin else None) == (past[-1] if past else None)
        assert (following if following is not None and following <= end else None) == (coming[0] if coming else None)


@given(
    stops=_some(0, 23),
    starts=st.none() | _some(0, 23),
    since=st.integers(0, 47 * 60),
    now=st.integers(0, 47 * 60),
    extended=st.none() | st.integers(0, 60 * 60),
)
def test_the_next_stop_is_the_first_that_no_start_undoes(
    stops: frozenset[int], starts: frozenset[int] | None, since: int, now: int, extended: int | None
) -> None:
    """A stop before the end of an extension is applied then, unless it is undone until then."""
    assume(since <= now)
    zero = datetime(2026, 11, 16, tzinfo=UTC)
    begin, present = zero + since * MINUTE, zero + now * MINUTE
    until = None if extended is None else zero + extended * MINUTE
    schedule = Schedule(stop=f"0 {_field(stops)} * * *", start=None if starts is None else f"0 {_field(starts)} * * *")

    found = next_end(schedule, since=begin, now=present, not_before=until)

    hours = [zero + hour * 60 * MINUTE for hour in range(24 * 6)]
    stopping, starting = [h for h in hours if h.hour in stops], [h for h in hours if h.hour in (starts or ())]

    def is_due(at: datetime) -> datetime | None:
        last = [stop for stop in stopping if begin < stop <= at][-1:]
        return None if not last or any(last[0] <= start <= at for start in starting) else last[0]

    expected = is_due(present) or next(stop for stop in stopping if stop > present)
    if until is not None and expected < until:
        expected = until if is_due(until) else next(stop for stop in stopping if stop > until)
    assert found == expected


@given(st.text(max_size=120) | st.text("0123456789*/,-#LW? MONJAN", max_size=40))
def test_no_text_crashes_the_check(text: str) -> None:
    problem = expression_problem(text)
    if problem is None:
        assert next_time(text, "Europe/Berlin", datetime(2026, 1, 1, tzinfo=UTC)) is not None


@pytest.mark.parametrize("zone", ["Mars/Base", "", "Europe", "../../etc/passwd", "localtime"])
def test_an_unknown_zone_has_no_times(zone: str) -> None:
    """A record that another process wrote with more zones ends nothing here."""
    assert next_time("0 20 * * *", zone, datetime(2026, 1, 1, tzinfo=UTC)) is None
