"""When a day is reconciled, and what is known of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final

from corral.domain.costs.reconciliation import Reconciliation

BILL_LAG: Final = timedelta(hours=2)
"""
After the end of a day until it is first reconciled: the bill is made hourly, and late by a time that is not documented.

Shorter, and rows are missing that come later; longer, and a difference is known later.
"""
RETRY: Final = timedelta(hours=1)
"""Until a day is reconciled again whose bill could not be read or lacked rows. Shorter only makes calls."""
LAST_RETRY: Final = timedelta(hours=48)
"""After the end of a day; what the bill lacks then, it lacks. Shorter, and a bill that is a day late is missing."""
MOST_DAYS: Final = 7
"""How far back days are reconciled that could not be at their time, because the service was down."""


class DayState(StrEnum):
    """Whether the bill of a day could be compared."""

    RECONCILED = "reconciled"
    UNREACHABLE = "unreachable"
    """The bill could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledDay:
    """One day and its one result, that of the last attempt which could read the bill."""

    day: date
    state: DayState
    attempted_at: datetime
    attempts: int
    retry_at: datetime | None
    """When it is reconciled again; None: not by itself."""
    reason: str | None = None
    """Why the bill could not be read at the last attempt."""
    result: Reconciliation | None = None


def period(day: date) -> tuple[datetime, datetime]:
    """The first instant of *day* in UTC, and that of the next."""
    since = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return since, since + timedelta(days=1)


def yesterday(now: datetime) -> date:
    """The last day that is over."""
    return (now.astimezone(UTC) - timedelta(days=1)).date()


def due_days(now: datetime, *, first: date, retries: Mapping[date, datetime | None]) -> list[date]:
    """
    The days to reconcile now, the earliest first.

    *first* is the first day with usage; *retries* says for each day that was attempted when it is attempted again.
    """
    last = yesterday(now)
    days = [last - timedelta(days=back) for back in range(MOST_DAYS - 1, -1, -1)]
    return [day for day in days if day >= first and _is_due(day, now, retries)]


def retry_at(day: date, result: Reconciliation | None, now: datetime) -> datetime | None:
    """When *day* is reconciled again after an attempt at *now*, which has no *result* if the bill could not be read."""
    if result is not None and result.is_complete:
        return None
    _, end = period(day)
    return now + RETRY if now + RETRY <= end + LAST_RETRY else None


def _is_due(day: date, now: datetime, retries: Mapping[date, datetime | None]) -> bool:
    if day not in retries:
        return now >= period(day)[1] + BILL_LAG
    at = retries[day]
    return at is not None and at <= now
