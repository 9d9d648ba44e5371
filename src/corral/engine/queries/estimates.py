"""Estimates when an instance will be ready, by the median of earlier ones."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.store.session.database import Database
from corral.store.tables.fleet import ready_times

UNTIL_KNOWN: Final = timedelta(minutes=4)
REMEMBERED_SECONDS: Final = 60.0
"""The median of twenty changes slowly; without the cache every create would query it."""


class Estimates:
    """The usual times to ready, by product."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._usual: Cache[timedelta] = Cache(ttl_seconds=REMEMBERED_SECONDS, most_entries=1000, clock=clock)

    async def ready_at(self, product_name: str, since: datetime) -> datetime:
        """When an instance requested at *since* is expected to be ready."""

        async def load() -> timedelta:
            async with self._database.connection() as connection:
                seconds = await ready_times.usual_seconds(connection, product_name)
            return UNTIL_KNOWN if seconds is None else timedelta(seconds=seconds)

        return since + await self._usual.get(product_name, load)
