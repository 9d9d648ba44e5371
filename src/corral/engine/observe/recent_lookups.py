"""
What direct lookups just showed, for the reconcile job that follows: it saves that job's own lookup.

Another process, or a job that runs too late, looks the instance up itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.domain.instance import Instance
from corral.domain.observation.sighting import ProviderInstance

FRESH: Final = timedelta(seconds=10)
"""How long a lookup replaces another. Longer shows endpoints that may have changed; shorter saves no call when jobs are
late."""
MOST: Final = 100
"""More than are looked up within that time."""


class RecentLookups:
    """The last lookups of one process, each used once."""

    def __init__(self, clock: Clock) -> None:
        self._seen: Cache[tuple[datetime, ProviderInstance]] = Cache(
            ttl_seconds=FRESH.total_seconds(), most_entries=MOST, clock=clock
        )

    def keep(self, seen: ProviderInstance, at: datetime) -> None:
        """Keep what a lookup that began at *at* showed."""
        self._seen.put(seen.id, (at, seen))

    def take(self, instance: Instance, now: datetime) -> ProviderInstance | None:
        """The lookup of *instance*, once; None when it is too old, or when the record is of another observation."""
        if instance.provider_id is None:
            return None
        at, seen = self._seen.peek(instance.provider_id) or (None, None)
        self._seen.drop(instance.provider_id)
        return seen if at is not None and at == instance.observation.sighted_at and now - at <= FRESH else None
