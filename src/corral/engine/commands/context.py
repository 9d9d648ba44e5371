"""The request behind a command: its audit line, its idempotency key, and the reader of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from corral.base.clock import Clock
from corral.domain.audit import AuditEntry
from corral.domain.idempotency import IdempotencyKey, KeyRow
from corral.engine.batcher import Batcher
from corral.store.session.database import Database
from corral.store.tables import idempotency


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The request behind a command."""

    line: Callable[..., AuditEntry]
    """Returns the audit line, which is written with the change, for `at` and `instance_id`."""
    key: IdempotencyKey | None = None
    """If given, the response is stored under it with the change."""
    correlation_id: str | None = None
    """Kept with the operation and its job; all log lines that follow from the request carry it."""


class IdempotencyKeys:
    """Reads keys; those that are requested at the same time are read with one statement."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._asked = Batcher[str, KeyRow | None](self._read)

    async def find(self, key: str) -> KeyRow | None:
        """The row of *key*; None when it is free."""
        return await self._asked.add(key)

    async def _read(self, keys: Sequence[str]) -> list[KeyRow | None]:
        async with self._database.connection() as connection:
            found = await idempotency.find(connection, keys, self._clock.now())
        return [found.get(key) for key in keys]
