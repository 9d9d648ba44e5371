"""Single connections: closed when a statement takes too long, and asked once whether they are answered at all."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Final

import asyncpg

from corral.store.server.target import DatabaseTarget
from corral.store.session import sessions
from corral.store.session.driver_errors import NO_SESSION, UNREACHABLE, NoSessionError

PROBE_SECONDS: Final = 4.0
"""Shorter than STATEMENT_SECONDS: when the first statements against a frozen server end, those waiting behind them for
a connection are refused at once instead of waiting as long again."""


class Sessions:
    """
    Whether new sessions can be had from the server of *target*, of which this process opens up to *most*.

    A pooler that has none left accepts a connection and lets its first statement wait, while open sessions work as
    ever. Every new connection of the pool is therefore asked once, and after a failure a probe tries again.
    """

    def __init__(self, target: DatabaseTarget, *, most: int) -> None:
        self._target = target
        self._most = most
        self._are_short = False

    async def greet(self, connection: Any) -> None:
        """Raise NoSessionError unless a new *connection* answers."""
        try:
            await sessions.prepare(connection, seconds=PROBE_SECONDS)
        except TimeoutError as error:
            self._are_short = True
            raise NoSessionError from error
        self._are_short = False

    async def shortage(self) -> str | None:
        """Why new connections fail, as far as one did and one more does; None otherwise."""
        if self._are_short:
            with contextlib.suppress(*UNREACHABLE):
                connection = await asyncpg.connect(
                    **self._target.arguments(),
                    timeout=math.ceil(PROBE_SECONDS),
                    connection_class=ClosingConnection,
                    server_settings={"application_name": "corral"},
                )
                try:
                    await self.greet(connection)
                finally:
                    connection.terminate()
        if not self._are_short:
            return None
        return f"{NO_SESSION}; this process opens up to {self._most}; it must hold the sum of all processes"


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
