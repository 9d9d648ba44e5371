"""
One leader among all processes on one database: the one with a session that holds an advisory lock.

PostgreSQL releases the lock when that session ends: with the process, or, when the process is frozen or its host lost
power, because another process ends it (`store/session/presence.py`). A leader that was frozen finds its session closed
at the next `check`, before it acts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from corral.base.clock import Clock
from corral.domain.errors import StoreUnavailableError
from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import own_session
from corral.store.session.database import UNREACHABLE, driver_errors

CAMPAIGN_SECONDS = 1.0
"""How often a process that does not lead tries to take the lock."""
CHECK_SECONDS = 5.0
"""How long the server may take to confirm the leadership. Longer, and a leader that is cut off acts for that long after
it was replaced; shorter, and a slow answer of a busy server ends a leadership."""


@dataclass(kw_only=True)
class Leadership:
    """The leadership for one task, *matter*."""

    target: DatabaseTarget = field(kw_only=False)
    clock: Clock = field(kw_only=False)
    matter: str
    application_name: str = "corral"
    check_seconds: float = CHECK_SECONDS

    def __post_init__(self) -> None:
        """Begin without the lead."""
        self._connection: asyncpg.Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def leading(self) -> AsyncGenerator[None]:
        """Wait until we lead, and lead until the end of the block; raises StoreUnavailableError without a database."""
        session = own_session(self.target, name=self.application_name, statement_seconds=self.check_seconds)
        async with AsyncExitStack() as stack:
            with driver_errors():
                connection = self._connection = await stack.enter_async_context(session)
            try:
                while not await self._try_lock(connection):
                    await self.clock.sleep(CAMPAIGN_SECONDS)
                yield
            finally:
                self._connection = None

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
            won = await connection.fetchval("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", self.matter)
        return bool(won)
