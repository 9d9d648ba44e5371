"""
The pool of connections, and the one place where a driver's error becomes ours.

The database may go away and come back, freeze, or refuse writes for a while: each is a StoreUnavailableError for the
caller, and the next one to ask gets a new connection. Nothing here retries; the callers know whether they may.

No statement waits for ever. After STATEMENT_SECONDS its connection is closed instead of being asked to cancel: a frozen
server does not answer that either. Once a probe has found the server frozen, callers are refused at once until a later
probe succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import asyncpg

from corral.domain.errors import StoreUnavailableError
from corral.store import sessions
from corral.store.target import DatabaseTarget

Connection: TypeAlias = asyncpg.pool.PoolConnectionProxy
Pool: TypeAlias = asyncpg.Pool

CONNECT_TIMEOUT_SECONDS = 5.0
"""A server on this machine or in this data centre answers in milliseconds; one that needs longer is not there."""
STATEMENT_SECONDS: Final = 6.0
"""Shorter, and a busy server's slow statements fail; longer, and with the wait for a connection a request against a
frozen server takes more than 10 s. Statements take milliseconds; the largest group of creates takes 0.3 s."""
SWEEP_SECONDS: Final = 120.0
"""For statements that remove old rows, of which there may be millions; no request waits for them."""
PROBE_SECONDS: Final = 4.0
"""Shorter than STATEMENT_SECONDS: when the first statements against a frozen server end, those waiting behind them for
a connection are refused at once instead of waiting as long again."""
RETRY_AFTER_SECONDS: Final = 2.0

UNREACHABLE: tuple[type[BaseException], ...] = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncio.TimeoutError,
    asyncpg.OperatorInterventionError,  # class 57: cancelled, shut down, starting up
    asyncpg.InsufficientResourcesError,  # class 53: disk full, out of memory, too many connections
    asyncpg.TransactionRollbackError,  # class 40: deadlock, serialization failure
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.PostgresSystemError,  # class 58: I/O errors of the server
)
"""What asyncpg raises when the server is the trouble and not the statement: the same one may succeed later."""

_REASONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (asyncpg.ReadOnlySQLTransactionError, "the database is read-only at the moment"),
    (asyncpg.DiskFullError, "the database's disk is full"),
    (asyncpg.TooManyConnectionsError, "the database has no connection left"),
    (asyncpg.InsufficientResourcesError, "the database lacks resources"),
    (asyncpg.QueryCanceledError, "the database cancelled the statement"),
    (asyncpg.TransactionRollbackError, "the database rolled the transaction back"),
    (asyncpg.LockNotAvailableError, "the database did not get a lock in time"),
    (asyncio.TimeoutError, "the database did not answer in time"),
)
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

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._frozen = False

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
        with translated():
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
                init=sessions.prepare,
                server_settings={"application_name": application_name, "timezone": "UTC"},
            )
        return cls(pool)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Borrow a connection for statements that stand alone; raises StoreUnavailableError."""
        self._check_frozen()
        with translated():
            async with self.pool.acquire(timeout=CONNECT_TIMEOUT_SECONDS) as connection:
                self._check_frozen()  # it may have been noticed while we waited
                try:
                    yield connection
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
            with translated():
                async with self.pool.acquire(timeout=PROBE_SECONDS) as connection:
                    row = await connection.fetchrow(_PROBE, timeout=PROBE_SECONDS)
                    if row is None:  # pragma: no cover  # it always returns one row
                        return Probe(problem=FROZEN)
                    if row["read_only"]:
                        await self.pool.expire_connections()
        except StoreUnavailableError as error:
            self._frozen = isinstance(error.__cause__, TimeoutError) and not self._is_exhausted()
            return Probe(problem=FROZEN if self._frozen else error.message)
        self._frozen = False
        return Probe(problem=_REASONS[0][1] if row["read_only"] else None, at=row["at"])

    async def answers(self) -> bool:
        """Whether a trivial statement succeeds."""
        return (await self.probe()).at is not None

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
        """Whether every connection is open and in use: then waiting for one says nothing about the server."""
        pool = self.pool
        return bool(pool.get_size() >= pool.get_max_size() and pool.get_idle_size() == 0)


class ClosingConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types for mypy
    """
    A connection that closes itself when a statement takes too long.

    asyncpg would ask the server to cancel the statement and wait for that; every ROLLBACK after it would wait as well.
    """

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109  # asyncpg's
        """Execute *query*; see asyncpg."""
        with _closed_after_timeout(self):
            return await super().execute(query, *args, timeout=timeout)

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Execute *command* for each of *args*; see asyncpg."""
        with _closed_after_timeout(self):
            await super().executemany(command, args, timeout=timeout)

    async def fetch(self, *args: Any, **options: Any) -> Any:
        """Return all rows; see asyncpg."""
        with _closed_after_timeout(self):
            return await super().fetch(*args, **options)

    async def fetchrow(self, *args: Any, **options: Any) -> Any:
        """Return the first row; see asyncpg."""
        with _closed_after_timeout(self):
            return await super().fetchrow(*args, **options)

    async def fetchval(self, *args: Any, **options: Any) -> Any:
        """Return one value; see asyncpg."""
        with _closed_after_timeout(self):
            return await super().fetchval(*args, **options)


class _closed_after_timeout:  # noqa: N801  # reads as a word where it is used
    """Closes *connection* when the block ends with a time-out."""

    __slots__ = ("_connection",)

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, TimeoutError):
            self._connection.terminate()


@asynccontextmanager
async def whole(connection: Connection) -> AsyncGenerator[None]:
    """Make what follows on *connection* one transaction, or a part of the one that is open."""
    if connection.is_in_transaction():
        yield
    else:
        async with connection.transaction():
            yield


class translated:  # noqa: N801  # reads as a word where it is used: `with translated():`
    """Turns errors of the driver that may pass into StoreUnavailableError; errors of statements pass unchanged."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise our error in place of the driver's."""
        if isinstance(error, UNREACHABLE):
            raise StoreUnavailableError(_reason(error), retry_after_seconds=RETRY_AFTER_SECONDS) from error


def _reason(error: BaseException) -> str:
    return next((words for kind, words in _REASONS if isinstance(error, kind)), "the database cannot be reached")


async def _keep_session(_connection: Any) -> None:
    """Stand in for asyncpg's reset query."""
