"""
One leader among all processes on one database: the one with a session that holds an advisory lock.

PostgreSQL releases the lock when that session ends: with the process, or, when the process is frozen or its host lost
power, because another process ends it (`store/session/presence.py`). A leader that was frozen finds its session closed
at the next `check`, before it acts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from corral.base.clock import Clock
from corral.domain.errors import StoreUnavailableError
from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import prepare
from corral.store.session.database import CONNECT_TIMEOUT_SECONDS, UNREACHABLE, driver_errors

CAMPAIGN_SECONDS = 1.0
"""How often a process that does not lead tries to take the lock."""
CHECK_SECONDS = 5.0
"""How long the server may take to confirm the leadership. Longer, and a leader that is cut off acts for that long after
it was replaced; shorter, and a slow answer of a busy server ends a leadership."""


class Leadership:
    """The leadership for one task, *matter*."""

    def __init__(
        self,
        target: DatabaseTarget,
        clock: Clock,
        *,
        matter: str,
        application_name: str = "corral",
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self._target = target
        self._clock = clock
        self._matter = matter
        self._application_name = application_name
        self._check_seconds = check_seconds
        self._connection: asyncpg.Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def leading(self) -> AsyncGenerator[None]:
        """Wait until we lead, and lead until the end of the block; raises StoreUnavailableError without a database."""
        with driver_errors():
            connection = await asyncpg.connect(
                **self._target.arguments(),
                timeout=CONNECT_TIMEOUT_SECONDS,  # pyright: ignore[reportArgumentType]  # its default, 60, is no type
                command_timeout=self._check_seconds,
                server_settings={"application_name": self._application_name},
            )
        self._connection = connection
        try:
            with driver_errors():
                await prepare(connection)
            while not await self._try_lock(connection):
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
            async with self._one_at_a_time:
                await self._connection.execute("SELECT 1")
        except UNREACHABLE as error:
            raise StoreUnavailableError("the lead was lost with its connection") from error

    async def _try_lock(self, connection: asyncpg.Connection) -> bool:
        with driver_errors():
            won = await connection.fetchval("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", self._matter)
        return bool(won)
