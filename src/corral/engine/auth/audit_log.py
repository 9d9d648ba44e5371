"""
The audit log: its reader, and the writer of lines that belong to no change of the database.

Commands write the line of a change in the transaction of the change. Refusals, replays and cleared caches have no such
transaction: their lines are written here before the response is sent, many to a commit (docs/decisions/0006). If that
fails, the line is logged and counted and the response is sent anyway, because its effect cannot be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.domain.audit import AuditEntry, AuditLine
from corral.domain.rate_limit import RateLimit
from corral.engine.batcher import Batcher
from corral.engine.ids import is_id
from corral.store.session.database import Database
from corral.store.tables.callers import audit

UNKNOWN_CALLER_LINES_A_MINUTE: Final = 600
"""Lines of callers without a valid key, of one process: at most some 200 MB a day, which do not fill the disk."""


class AuditLog:
    """Reads the log, and writes lines outside any change's transaction."""

    def __init__(self, database: Database, clock: Clock, metrics: Metrics) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._entries = Batcher[AuditEntry, None](self._write)
        self._unknown_callers = RateLimit(most=UNKNOWN_CALLER_LINES_A_MINUTE, window_seconds=60)

    async def record(self, entry: AuditEntry) -> None:
        """Write *entry*; returns when it is committed or the attempt failed."""
        if entry.caller is None and not self._unknown_callers.take("all", self._clock.monotonic()).admitted:
            self._metrics.audit_unwritten.labels("strangers").inc()
            return
        try:
            await self._entries.add(entry)
        except Exception as error:  # noqa: BLE001  # whatever it is, the caller must get the answer
            self._metrics.audit_unwritten.labels("failed").inc()
            log.error(
                "audit.unwritten",
                who=None if entry.caller is None else entry.caller.name,
                method=entry.method,
                path=entry.path,
                status=entry.status,
                instance_id=entry.instance_id,
                reason=repr(error),
            )

    async def require(self, entry: AuditEntry) -> None:
        """Write *entry* before something is handed out that cannot be taken back; raises StoreUnavailableError."""
        await self._entries.add(entry)

    async def page(
        self,
        *,
        limit: int,
        after: int = 0,
        before: int | None = None,
        newest: bool = False,
        instance_id: str | None = None,
        who: str | None = None,
    ) -> list[AuditLine]:
        """The first lines between the numbers *after* and *before*, or with *newest* the last; oldest first."""
        if (instance_id is not None and not is_id(instance_id)) or (who is not None and not is_id(who)):
            return []
        async with self._database.connection() as connection:
            return await audit.page(
                connection,
                limit=limit,
                after=after,
                before=before,
                newest=newest,
                instance_id=instance_id,
                who=who,
            )

    async def _write(self, entries: Sequence[AuditEntry]) -> list[None]:
        async with self._database.connection() as connection:
            await audit.append(entries, synchronous=False).run(connection)
        return [None] * len(entries)
