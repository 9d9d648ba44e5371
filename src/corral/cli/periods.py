"""Points in time as `--since` and `--until` take them. Pure."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Final

from corral.domain.costs.forecast import month_of
from corral.domain.leases.durations import read_duration

ACCEPTED: Final = "today, mon, month, 7d (7 days ago), 2026-11-01 or 2026-11-01T12:00"
_WEEKDAYS: Final = {
    name: number
    for number, whole in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
    for name in (whole, whole[:3])
}


def read_time(text: str, now: datetime) -> datetime:
    """
    The time that *text* names at *now*, in UTC; raises ValueError for what is not ACCEPTED.

    A day is in UTC, as those of the provider are; a weekday is the last one, which may be today. A time without a zone
    is in UTC.
    """
    now, word = now.astimezone(UTC), text.strip().lower()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in _WEEKDAYS:
        return today - timedelta(days=(today.weekday() - _WEEKDAYS[word]) % 7)
    named = {"now": now, "today": today, "yesterday": today - timedelta(days=1), "month": month_of(now).starts_at}
    if word in named:
        return named[word]
    with contextlib.suppress(ValueError, OverflowError):
        return now - read_duration(word)
    with contextlib.suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(word.upper())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    raise ValueError(f"must be {ACCEPTED}")
