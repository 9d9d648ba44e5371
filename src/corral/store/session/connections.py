"""
Single connections: how a new one is prepared and checked, and that it closes itself when a statement takes too long.

Every session asks the server to end it soon after this process, or its host, is gone. By default a server notices a
host that lost power after two hours; until then the dead session keeps its locks and its open transaction. The settings
are made by a statement, not in the startup packet, because PgBouncer refuses startup parameters that it does not know.
On a Unix socket they have no effect.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, ClassVar, Final

import asyncpg

from corral.store.server.target import DatabaseTarget
from corral.store.session.driver_errors import NO_SESSION, UNREACHABLE, NoSessionError

CONNECT_TIMEOUT_SECONDS: Final = 5.0
"""A server on this machine or in this data centre answers in milliseconds; one that needs longer counts as down."""
PROBE_SECONDS: Final = 4.0
"""Shorter than STATEMENT_SECONDS: when the first statements against a frozen server end, those waiting behind them for
a connection are refused at once instead of waiting as long again."""

KEEPALIVE_IDLE_SECONDS: Final = 10
KEEPALIVE_INTERVAL_SECONDS: Final = 5
KEEPALIVE_COUNT: Final = 3
"""A silent host is probed after 10 s and given up 15 s later. Shorter, and a network that is away for a moment ends
sessions; longer, and the locks of a dead host are kept for longer than another leader is promised (30 s)."""
USER_TIMEOUT_MS: Final = 20_000
"""How long the server waits for an answer that it sent to be acknowledged; the same reasons in both directions."""

FIRST_OWN_OID: Final = 16384
"""Types with a lower number are PostgreSQL's own, and the same in every database."""

_PREPARE: Final = f"""
SELECT set_config('tcp_keepalives_idle', '{KEEPALIVE_IDLE_SECONDS}', false),
       set_config('tcp_keepalives_interval', '{KEEPALIVE_INTERVAL_SECONDS}', false),
       set_config('tcp_keepalives_count', '{KEEPALIVE_COUNT}', false),
       set_config('tcp_user_timeout', '{USER_TIMEOUT_MS}', false)
"""


async def prepare(connection: Any, *, seconds: float | None = None) -> None:
    """
    Make a new session end soon after its client; *connection* is asyncpg's, pooled or not.

    Raises TimeoutError when the server does not answer within *seconds*, or else within the connection's own limit.
    """
    await connection.execute(_PREPARE, timeout=seconds)


@asynccontextmanager
async def own_session(
    target: DatabaseTarget, *, name: str, statement_seconds: float
) -> AsyncGenerator[asyncpg.Connection]:
    """A prepared session outside the pool, called *name*; a statement may take *statement_seconds*."""
    connection = await asyncpg.connect(
        **target.arguments(),
        timeout=math.ceil(CONNECT_TIMEOUT_SECONDS),
        command_timeout=statement_seconds,
        server_settings={"application_name": name},
    )
    try:
        await prepare(connection)
        yield connection
    finally:
        connection.terminate()


class SessionCheck:
    """
    Whether the server of *target*, on which this process opens up to *most* sessions, grants new ones.

    A pooler that has none left accepts a connection and lets its first statement wait, while open sessions still work.
    So every new connection of the pool has to answer a first statement, and after a failure `shortage` tries again.
    """

    def __init__(self, target: DatabaseTarget, *, most: int) -> None:
        self._target = target
        self._most = most
        self._is_short = False

    async def check(self, connection: Any) -> None:
        """Prepare a new *connection*; raises NoSessionError when it does not answer."""
        try:
            await prepare(connection, seconds=PROBE_SECONDS)
        except TimeoutError as error:
            self._is_short = True
            raise NoSessionError from error
        self._is_short = False

    async def shortage(self) -> str | None:
        """Why new connections fail; None unless the last one failed and one more does."""
        if self._is_short:
            with suppress(*UNREACHABLE):
                connection = await asyncpg.connect(
                    **self._target.arguments(),
                    timeout=math.ceil(PROBE_SECONDS),
                    connection_class=ClosingConnection,
                    server_settings={"application_name": "corral"},
                )
                try:
                    await self.check(connection)
                finally:
                    connection.terminate()
        if not self._is_short:
            return None
        return f"{NO_SESSION}; this process opens up to {self._most}; it must hold the sum of all processes"


class ClosingConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types for mypy
    """
    A connection that closes itself when a statement takes too long.

    asyncpg would ask the server to cancel the statement and wait for that; every ROLLBACK after it would wait as well.
    """

    _known_types: ClassVar[dict[tuple[object, ...], Any]] = {}

    async def _introspect_types(self, typeoids: Any, timeout: float | None) -> Any:  # noqa: ASYNC109  # asyncpg's
        """
        Read what asyncpg must know of these types, once a process; of those that not every server has, once a database.

        asyncpg asks again on every connection, also about arrays of bytea or jsonb, which takes the server 10 ms.
        """
        is_built_in = max(typeoids) < FIRST_OWN_OID
        asked = (*(() if is_built_in else (self._addr, self._params.database)), *sorted(typeoids))
        if asked not in self._known_types:
            self._known_types[asked] = await super()._introspect_types(typeoids, timeout)
        return self._known_types[asked]

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

    async def fetchmany(self, *args: Any, **options: Any) -> Any:
        """Return the rows of a query for each sequence of arguments; see asyncpg."""
        with _closed_after_timeout(self):
            return await super().fetchmany(*args, **options)

    async def fetchrow(self, *args: Any, **options: Any) -> Any:
        """Return the first row; see asyncpg."""
        with _closed_after_timeout(self):
            return await super().fetchrow(*args, **options)

    async def fetchval(self, *args: Any, **options: Any) -> Any:
        """Return one value; see asyncpg."""
        with _closed_after_timeout(self):
            return await super().fetchval(*args, **options)


@contextmanager
def _closed_after_timeout(connection: asyncpg.Connection) -> Generator[None]:
    """Close *connection* when the block ends with a time-out."""
    try:
        yield
    except TimeoutError:
        connection.terminate()
        raise
