"""
The times at which a schedule stops and starts an instance. Pure but for the time zone database.

`cronsim` finds the times on the calendar; they are the times of a clock on the wall in the zone of the schedule. A time
that daylight saving skips is applied when the clock is set forward, and one that comes twice at its first coming.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from corral.domain.leases.lease import Schedule

LEAST_APART: Final = timedelta(minutes=5)
"""Between two times of one expression. Shorter, and an instance is stopped and started without ever being used."""
LONGEST_EXPRESSION: Final = 100
_HIGHEST: Final = {"minute": 59, "hour": 23, "day of the month": 31, "month": 12, "day of the week": 7}
"""The highest number of each field. `cronsim` takes any step, and one beyond the field is a mistake: it comes at the
first value only."""
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 2
_CHECKED: Final = 300
"""How many times of an expression are looked at to find two that are too close: at five minutes a day has 288."""
_CHECKED_UNTIL: Final = 2033
_REFERENCE: Final = datetime(2024, 1, 1)  # noqa: DTZ001  a time on the wall
_MINUTE: Final = timedelta(minutes=1)
_SECOND: Final = timedelta(seconds=1)


@lru_cache(maxsize=256)
def expression_problem(expression: str) -> str | None:
    """What is wrong with a cron expression, as the rule that it breaks; None: nothing."""
    fields = expression.split()
    if len(expression) > LONGEST_EXPRESSION or len(fields) != len(_HIGHEST):
        return f"must be a cron expression of five fields and at most {LONGEST_EXPRESSION} characters"
    for field, (name, highest) in zip(fields, _HIGHEST.items(), strict=True):
        if any(len(number) > _DIGITS or int(number) > highest for number in _NUMBER.findall(field)):
            return f"must be a cron expression: the {name} has a number above {highest}"
    try:
        times = CronSim(expression, _REFERENCE)
        first = next(times, None)
    except CronSimError as error:
        return f"must be a cron expression: {str(error).lower()}"
    if first is None:
        return "must be a cron expression that comes at least once in fifty years"
    checked = takewhile(lambda time: time.year < _CHECKED_UNTIL, islice(times, _CHECKED))
    if any(later - earlier < LEAST_APART for earlier, later in pairwise((first, *checked))):
        return "must not come more often than every 5 minutes"
    return None


def is_timezone(name: str) -> bool:
    """
    Whether *name* is a zone of the IANA database.

    `localtime` is not, because it differs between machines, nor is `Factory`, which means that none was chosen.
    """
    return name in _zone_names()


def next_time(expression: str, zone: str, after: datetime) -> datetime | None:
    """When *expression* next comes after *after*, in UTC; None if it never does, or cannot be read."""
    times = _times(expression, zone, after, reverse=False)
    return next((time for time in times if time > after), None)


def last_time(expression: str, zone: str, until: datetime) -> datetime | None:
    """When *expression* last came, at *until* at the latest, in UTC; None if it never did, or cannot be read."""
    times = _times(expression, zone, until, reverse=True)
    return next((time for time in times if time <= until), None)


def due_stop(schedule: Schedule, *, since: datetime, now: datetime) -> datetime | None:
    """The last stop in (*since*, *now*] that no start at the same time or later undoes; None if there is none."""
    return _due(schedule.stop, schedule.start, schedule.timezone, since=since, now=now)


def due_start(schedule: Schedule, *, since: datetime, now: datetime) -> datetime | None:
    """The last start in (*since*, *now*] that no stop at the same time or later undoes; None if there is none."""
    return _due(schedule.start, schedule.stop, schedule.timezone, since=since, now=now)


def next_end(schedule: Schedule, *, since: datetime, now: datetime, not_before: datetime | None) -> datetime | None:
    """
    When the schedule next stops an instance that runs: the stop that is due, else the next one; None: never.

    A stop before *not_before* is applied then, unless a start comes in between.
    """
    stop = due_stop(schedule, since=since, now=now) or _next(schedule.stop, schedule.timezone, now)
    if stop is None or not_before is None or stop >= not_before:
        return stop
    is_due_then = due_stop(schedule, since=since, now=not_before) is not None
    return not_before if is_due_then else _next(schedule.stop, schedule.timezone, not_before)


def next_start(schedule: Schedule, *, since: datetime, now: datetime) -> datetime | None:
    """When the schedule next starts an instance that it may start: the start that is due, else the next one."""
    return due_start(schedule, since=since, now=now) or _next(schedule.start, schedule.timezone, now)


def _due(expression: str | None, other: str | None, zone: str, *, since: datetime, now: datetime) -> datetime | None:
    last = None if expression is None else last_time(expression, zone, now)
    undone = None if other is None else last_time(other, zone, now)
    if last is None or last <= since or (undone is not None and undone >= last):
        return None
    return last


def _next(expression: str | None, zone: str, after: datetime) -> datetime | None:
    return None if expression is None else next_time(expression, zone, after)


def _times(expression: str, zone: str, near: datetime, *, reverse: bool) -> Iterator[datetime]:
    """The times of *expression* in UTC from about *near* on, forward or back; none if it cannot be read."""
    known = _zone(zone)
    if known is None:
        return
    offset = near.astimezone(known).utcoffset() or timedelta(0)
    if reverse:  # while an hour comes twice, all of it came already
        offset = near.astimezone(known).replace(fold=0).utcoffset() or offset
    wall = (near.astimezone(UTC) + offset).replace(tzinfo=None, microsecond=0)
    try:
        for time in CronSim(expression, wall + _SECOND if reverse else wall, reverse=reverse):
            yield _instant(time, known)
    except (CronSimError, OverflowError):
        return


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """When a clock in *zone* first shows *wall* or, if that is skipped, when it is set forward beyond it."""
    while True:
        found = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if found.astimezone(zone).replace(tzinfo=None) == wall:
            return found
        wall += _MINUTE


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo | None:
    return ZoneInfo(name) if is_timezone(name) else None


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones()) - {"localtime", "Factory"}
