"""A request that is to happen once: its key, and what is kept of its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from corral.base.clock import Clock
from corral.engine.batcher import Batcher
from corral.store.session.database import Database
from corral.store.tables import idempotency
from corral.store.tables.idempotency import KeyRow, StoredResponse

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest(Generic[T]):
    """The idempotency key of a request, and how its outcome will be told."""

    key: str
    fingerprint: bytes
    answer_of: Callable[[T], StoredResponse]

    def row(self, outcome: T) -> KeyRow:
        """What is to be kept."""
        return KeyRow(key=self.key, fingerprint=self.fingerprint, answer=self.answer_of(outcome))


class IdempotencyKeys:
    """What is known of keys; those that are asked for at the same time are read together."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._asked = Batcher[str, KeyRow | None](self._read)

    async def find(self, key: str) -> KeyRow | None:
        """What is known of *key*; None when it is free."""
        return await self._asked.add(key)

    async def _read(self, keys: Sequence[str]) -> list[KeyRow | None]:
        async with self._database.connection() as connection:
            found = await idempotency.find(connection, keys, self._clock.now())
        return [found.get(key) for key in keys]
