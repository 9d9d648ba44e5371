"""
The pool of connections, in which an error of the driver becomes one of ours.

A database that is unreachable, frozen or read-only for a while is a StoreUnavailableError for the caller, and the next
caller gets a new connection. Nothing here retries: only the callers know whether they may.

No statement waits for ever. After STATEMENT_SECONDS its connection is closed instead of sending a cancel request, which
a frozen server does not answer either. Once a probe has found the server frozen, callers are refused at once until a
later probe succeeds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import asyncpg

from corral.domain.errors import StoreUnavailableError
from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import CONNECT_TIMEOUT_SECONDS, PROBE_SECONDS, ClosingConnection, SessionCheck
from corral.store.session.driver_errors import (
    DISK_FULL,
    READ_ONLY,
    RETRY_AFTER_SECONDS,
    UNREACHABLE,
    NoSessionError,
    driver_errors,
)

__all__ = ["UNREACHABLE", "Connection", "Database", "Pool", "Probe", "driver_errors", "ensure_transaction"]

Connection: TypeAlias = asyncpg.pool.PoolConnectionProxy
Pool: TypeAlias = asyncpg.Pool

STATEMENT_SECONDS: Final = 6.0
"""Shorter, and a busy server's slow statements fail; longer, and with the wait for a connection a request against a
frozen server takes more than 10 s. Statements take milliseconds; the largest group of creates takes 0.3 s."""
SWEEP_SECONDS: Final = 120.0
"""For statements that remove old rows, of which there may be millions; no request waits for them."""
OWN_CONNECTIONS: Final = 3
"""Beside the pool (`pool_size` in `app/bootstrap.py`): one each for notifications, presence and leadership."""
FULL_SECONDS: Final = 15.0
"""For how long after a statement failed on a full disk the database counts as down: reads
and small writes still succeed, so a probe does not notice. Shorter, and health changes with every request; longer, and
it lags once there is room."""
FROZEN: Final = "the database does not answer"

_PROBE: Final = """
SELECT clock_timestamp() AS at, pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The state of the database, as one trivial statement showed it."""

    problem: str | None = None
    """Why requests fail, in one sentence; None when they do not."""
    at: datetime | None = None
    """The time by the database's clock; None when it did not answer."""


class Database:
    """One PostgreSQL database, reached through a pool."""

    def __init__(self, pool: Pool, sessions: SessionCheck | None = None) -> None:
        self.pool = pool
        self._sessions = sessions
        self._frozen = False
        self._full_at = -math.inf

    @classmethod
    async def connect(
        cls,
        target: DatabaseTarget,
        *,
        most_connections: int,
        least_connections: int = 1,
        application_name: str = "corral",
        statement_seconds: float | None = STATEMENT_SECONDS,
    ) -> Database:
        """
        Open a pool; raises StoreUnavailableError when the server cannot be reached.

        A statement may take *statement_seconds*, unless it names a time-out of its own; None: any time.
        """
        sessions = SessionCheck(target, most=most_connections + OWN_CONNECTIONS)
        with driver_errors():
            pool = await asyncpg.create_pool(
                **target.arguments(),
                min_size=least_connections,
                max_size=most_connections,
                timeout=CONNECT_TIMEOUT_SECONDS,
                command_timeout=statement_seconds,
                connection_class=ClosingConnection,
                # The default reset costs a round trip at every release; no code here leaves session state behind
                # (a point read takes 145 us without it, 260 us with).
                reset=_keep_session,
                init=sessions.check,
                server_settings={"application_name": application_name, "timezone": "UTC"},
            )
        return cls(pool, sessions)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Borrow a connection, without a transaction; raises StoreUnavailableError."""
        self._check_frozen()
        with driver_errors():
            async with self.pool.acquire(timeout=CONNECT_TIMEOUT_SECONDS) as connection:
                self._check_frozen()  # it may have been noticed while we waited
                try:
                    yield connection
                except asyncpg.DiskFullError:
                    self._full_at = asyncio.get_running_loop().time()
                    raise
                except asyncpg.ReadOnlySQLTransactionError:
                    # After a failover the old primary stays read-only: a new connection may lead to the new one.
                    await self.pool.expire_connections()
                    raise

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Borrow a connection inside a transaction: committed at the end, rolled back on any error."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def probe(self) -> Probe:
        """Run a trivial statement and return what it showed; never raises an error of the database."""
        try:
            with driver_errors():
                async with self.pool.acquire(timeout=PROBE_SECONDS) as connection:
                    row = await connection.fetchrow(_PROBE, timeout=PROBE_SECONDS)
                    if row is None:  # pragma: no cover  # it always returns one row
                        return Probe(problem=FROZEN)
                    if row["read_only"]:
                        await self.pool.expire_connections()
        except StoreUnavailableError as error:
            cause = error.__cause__
            is_silent = isinstance(cause, TimeoutError) and not isinstance(cause, NoSessionError)
            self._frozen = is_silent and not self._is_exhausted()
            return Probe(problem=FROZEN if self._frozen else error.message)
        self._frozen = False
        is_full = asyncio.get_running_loop().time() < self._full_at + FULL_SECONDS
        problem = READ_ONLY if row["read_only"] else DISK_FULL if is_full else None
        if problem is None and self._sessions is not None:
            problem = await self._sessions.shortage()
        return Probe(problem=problem, at=row["at"])

    async def close(self) -> None:
        """Close every connection, waiting briefly for those in use."""
        try:
            await asyncio.wait_for(self.pool.close(), timeout=CONNECT_TIMEOUT_SECONDS)
        except UNREACHABLE:
            self.pool.terminate()

    def _check_frozen(self) -> None:
        if self._frozen:
            raise StoreUnavailableError(FROZEN, retry_after_seconds=RETRY_AFTER_SECONDS)

    def _is_exhausted(self) -> bool:
        """Whether every connection is open and in use: then a long wait does not mean that the server is frozen."""
        pool = self.pool
        return bool(pool.get_size() >= pool.get_max_size() and pool.get_idle_size() == 0)


@asynccontextmanager
async def ensure_transaction(connection: Connection) -> AsyncGenerator[None]:
    """Make what follows on *connection* one transaction, or a part of the one that is open."""
    if connection.is_in_transaction():
        yield
    else:
        async with connection.transaction():
            yield


async def _keep_session(_connection: Any) -> None:
    """Replaces asyncpg's reset query."""
