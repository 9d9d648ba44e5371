"""When a service that responds is not working: the provider is not observed, or no worker is alive."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

INTERVALS: Final = 2
SLACK: Final = timedelta(seconds=30)
"""Two missed observations are not an accident; 30 s is the longest takeover by another leader."""


def observation_limit(poll: timedelta, every: timedelta | None) -> timedelta:
    """How old the last observation may be; *every* is the interval the leader chose, where it is longer than *poll*."""
    return INTERVALS * max(poll, every or timedelta(0)) + SLACK


def is_observing(age: timedelta | None, uptime: timedelta, limit: timedelta) -> bool:
    """Whether the provider's list is read; a new service has *limit* for its first observation."""
    return (uptime if age is None else age) <= limit
