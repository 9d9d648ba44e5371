"""
One leader among all processes on one database: whoever holds a session's advisory lock.

PostgreSQL gives the lock back when the holder's connection ends, however it ends, so another process takes over without
anybody deciding that the old leader is dead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from corral.clock import Clock
from corral.domain.errors import StoreUnavailableError
from corral.store.database import UNREACHABLE, translated
from corral.store.target import DatabaseTarget

CAMPAIGN_SECONDS = 1.0
"""How often a process that does not lead asks whether it may."""


class Leadership:
    """A claim to lead in one matter."""

    def __init__(self, target: DatabaseTarget, clock: Clock, *, matter: str) -> None:
        self._target = target
        self._clock = clock
        self._matter = matter
        self._connection: asyncpg.Connection | None = None

    @asynccontextmanager
    async def won(self) -> AsyncGenerator[None]:
        """Wait until we lead, and lead until the end of the block; raises StoreUnavailableError without a database."""
        with translated():
            connection = await asyncpg.connect(**self._target.arguments())
        self._connection = connection
        try:
            while not await self._ask(connection):
                await self._clock.sleep(CAMPAIGN_SECONDS)
            yield
        finally:
            self._connection = None
            connection.terminate()

    async def check(self) -> None:
        """Raise StoreUnavailableError unless we still lead."""
        if self._connection is None:
            raise StoreUnavailableError("the lead was lost")
        try:
            await self._connection.execute("SELECT 1", timeout=5)
        except UNREACHABLE as error:
            raise StoreUnavailableError("the lead was lost with its connection") from error

    async def _ask(self, connection: asyncpg.Connection) -> bool:
        with translated():
            won = await connection.fetchval("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", self._matter)
        return bool(won)
