"""
What was just seen of single instances, for the pass that follows: it need not ask the same again.

A look at one instance also tells its endpoints. Only a call is saved by this: another process, or a pass that comes
late, asks the provider.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from corral.domain.instance import Instance, ProviderId
from corral.domain.observation.sighting import ProviderInstance

FRESH: Final = timedelta(seconds=10)
MOST: Final = 100
"""More than are ever looked at within that time."""


class RecentLookups:
    """The last few."""

    def __init__(self) -> None:
        self._seen: OrderedDict[ProviderId, tuple[datetime, ProviderInstance]] = OrderedDict()

    def keep(self, seen: ProviderInstance, at: datetime) -> None:
        """Remember what a look begun at *at* showed, but no password."""
        if seen.connection is not None:
            seen = replace(seen, connection=replace(seen.connection, ssh_password=None))
        self._seen[ProviderId(seen.id)] = (at, seen)
        self._seen.move_to_end(ProviderId(seen.id))
        if len(self._seen) > MOST:
            self._seen.popitem(last=False)

    def take(self, instance: Instance, now: datetime) -> ProviderInstance | None:
        """What was seen of *instance*, once; None when it is old, or when the record tells of another look."""
        if instance.provider_id is None:
            return None
        at, seen = self._seen.pop(instance.provider_id, (None, None))
        return seen if at is not None and at == instance.observation.sighted_at and now - at <= FRESH else None
