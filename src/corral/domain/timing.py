"""Pauses between retries, limits on silence, and timestamps as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, overload

INTERVALS: Final = 2
SLACK: Final = timedelta(seconds=30)
"""Two missed observations are not an accident; 30 s is the longest takeover by another leader."""


def delay(attempt: int, *, first: float, most: float, factor: float = 2.0) -> float:
    """Seconds to wait after attempt number *attempt*, the first being 1: *first*, times *factor* each, up to *most*."""
    if attempt < 1:
        raise ValueError(f"attempts are counted from 1, not {attempt}")
    # The exponent is bounded so that a very late attempt cannot overflow; `most` has long been reached by then.
    return min(most, first * factor ** min(attempt - 1, 64))


def jittered(seconds: float, *, spread: float, jitter: float) -> float:
    """*seconds* moved by up to ± *spread* (a share of 1), by *jitter* in [0, 1)."""
    return seconds * (1 + spread * (2 * jitter - 1))


def observation_limit(poll: timedelta, every: timedelta | None) -> timedelta:
    """How old the last observation may be; *every* is the interval the leader chose, where it is longer than *poll*."""
    return INTERVALS * max(poll, every or timedelta(0)) + SLACK


def is_observing(age: timedelta | None, uptime: timedelta, limit: timedelta) -> bool:
    """Whether the provider's list is read; a new service has *limit* for its first observation."""
    return (uptime if age is None else age) <= limit


@overload
def iso(instant: datetime) -> str: ...
@overload
def iso(instant: None) -> None: ...
def iso(instant: datetime | None) -> str | None:
    """*instant* as responses and webhooks write it: ISO 8601 in UTC with milliseconds and `Z`; None for None."""
    if instant is None:
        return None
    in_utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return in_utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
