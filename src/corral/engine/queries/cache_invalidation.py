"""
Drops cached values in every process when one process changes them.

A change calls `forget_on_commit` in its transaction (writes of instances and events notify by themselves); on commit
every process drops the value. The notification reaches the sending process with a delay, so code that must read its own
change also calls `registry.drop` after the commit.
"""

from __future__ import annotations

from functools import partial

from corral.cache.registry import CacheName, CacheRegistry
from corral.store.session.database import Connection, Database
from corral.store.session.notifications import Notifications, notify
from corral.store.tables import events, instances


async def forget_on_commit(connection: Connection, name: CacheName, key: str | None = None) -> None:
    """Have every process drop *key* of one cache, or all of it, when this connection's transaction commits."""
    await notify(connection, _topic(name), key)


class CacheInvalidation:
    """The caches of this process, and notifications to the others."""

    def __init__(self, registry: CacheRegistry, database: Database) -> None:
        self.registry = registry
        self._database = database

    def listen(self, notices: Notifications) -> None:
        """Drop what *notices* name, and everything when a notification may have been missed."""
        for name in CacheName:
            notices.subscribe(_topic(name), partial(self.registry.heard_of, name))
        notices.subscribe(instances.TOPIC, partial(self.registry.heard_of, CacheName.INSTANCE_DETAILS))
        notices.subscribe(events.TOPIC, partial(self.registry.heard_of, CacheName.MERGED_LISTING))  # new instances, too
        notices.on_gap(self.registry.clear)

    async def drop(self, name: CacheName, key: str) -> bool:
        """Drop one value in every process; returns whether this process held it."""
        held = self.registry.drop(name, key)
        async with self._database.connection() as connection:
            await forget_on_commit(connection, name, key)
        return held

    async def clear(self, name: CacheName | None = None) -> int:
        """Clear one cache, or all, in every process; returns how many values this process held."""
        removed = self.registry.clear(name)
        async with self._database.transaction() as connection:
            for each in CacheName if name is None else (name,):
                await forget_on_commit(connection, each)
        return removed


def _topic(name: CacheName) -> str:
    return f"cache.{name.value}"
