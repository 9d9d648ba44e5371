"""Writing a change of an instance down: its row, its operation, its event and its follow-ups, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from corral.cache.book import CacheName
from corral.domain.events import Change, Progress
from corral.domain.instance import Instance
from corral.domain.lifecycle import Phase
from corral.domain.operation import advanced
from corral.engine.shared_caches import forget_on_commit
from corral.store import instances, operations
from corral.store.database import Connection


class News(Protocol):
    """Who tells of changes."""

    async def tell(self, connection: Connection, changes: Sequence[Change]) -> None:
        """Record that *changes* happened, within the transaction that made them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes changes down."""

    news: News

    async def write(
        self,
        connection: Connection,
        before: Instance,
        after: Instance,
        *,
        because: str,
        now: datetime,
        look_again: timedelta | None = None,
    ) -> Instance:
        """
        Replace *before* by *after* and tell of it if its phase changed; answers the instance as written.

        Raises StaleError, and has written nothing, when somebody else changed it since it was read.
        """
        look_at = None if look_again is None else now + look_again
        async with connection.transaction():
            written = await instances.write(connection, after, look_at=look_at)
            if after.phase is not before.phase:
                await self._follow(connection, before, after, because, now)
            await forget_on_commit(connection, CacheName.INSTANCE_DETAILS, after.id)
        return written

    async def _follow(
        self, connection: Connection, before: Instance, after: Instance, because: str, now: datetime
    ) -> None:
        operation = await operations.load(connection, after.operation_id)
        progress = None
        if operation is not None:
            moved = advanced(operation, after, now)
            if moved is not operation:
                await operations.write(connection, moved)
            progress = Progress(before=operation, after=moved)
        if after.phase is Phase.READY and before.ready_at is None:
            await instances.remember_ready(
                connection, after.order.product_name, (now - after.created_at).total_seconds()
            )
        await self.news.tell(
            connection, [Change(before=before, after=after, because=because, at=now, progress=progress)]
        )
