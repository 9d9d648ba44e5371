"""
Whether the server named by DATABASE_URL can be used.

What the operator must change is a SettingsError in one sentence; an unreachable server is a StoreUnavailableError. The
sentence never contains the address, which may hold a password; the server's own message names user and database.

A pooler that shares a session between clients (PgBouncer in transaction or statement mode) is refused: session locks
and LISTEN would silently stop working. It is detected by its behaviour, whatever the product: two clients compare which
server process answers them, in an order that detects both last-used-first and round-robin poolers.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from corral.domain.errors import SettingsError, StoreUnavailableError
from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import CONNECT_TIMEOUT_SECONDS
from corral.store.session.driver_errors import RETRY_AFTER_SECONDS, UNREACHABLE

_PID: Final = "SELECT pg_backend_pid()"
_SHARED: Final = (
    "DATABASE_URL leads to a connection pooler that shares sessions between clients (transaction pooling); "
    "Corral needs sessions of its own: use session pooling, or connect to PostgreSQL itself"
)
_NO_SESSION: Final = (
    "the server named by DATABASE_URL accepts connections but answers no statement: it hangs, or a connection pooler "
    "in front of it has no session left; its pool must hold the connections of all Corral processes together"
)


async def check_server(target: DatabaseTarget) -> None:
    """Raise SettingsError or StoreUnavailableError, in one sentence, unless *target* can be used."""
    try:
        async with _client(target) as one, _client(target) as other:
            shared = await _is_shared(one, other)
    except SettingsError:
        raise
    except TimeoutError as error:
        raise StoreUnavailableError(_NO_SESSION, retry_after_seconds=RETRY_AFTER_SECONDS) from error
    except Exception as error:
        raise explained(error) from error
    if shared:
        raise SettingsError(_SHARED)


def explained(error: Exception) -> SettingsError | StoreUnavailableError:
    """Our error, in one sentence, for *error* raised while connecting."""
    match error:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return SettingsError(f"DATABASE_URL: the server refuses the login: {_message(error)}")
        case asyncpg.InvalidCatalogNameError():
            return SettingsError(f"DATABASE_URL: {_message(error)}; create it, or name another")
        case asyncpg.InsufficientPrivilegeError():
            return SettingsError(f"DATABASE_URL: its user may not do what Corral needs: {_message(error)}")
        case ssl.SSLError():
            return SettingsError(f"DATABASE_URL: no encrypted connection to the server: {error.reason or error}")
        case asyncpg.ClientConfigurationError() | ValueError():
            return SettingsError("DATABASE_URL cannot be read: accepted is postgresql://user:password@host:port/name")
        case _ if isinstance(error, UNREACHABLE) and "SSL" in str(error):
            return SettingsError("DATABASE_URL: the server offers no encrypted connection, which the address asks for")
        case OSError():
            return StoreUnavailableError(
                f"the server named by DATABASE_URL cannot be reached: {error.strerror or type(error).__name__}"
            )
        case _ if isinstance(error, UNREACHABLE):
            return StoreUnavailableError(f"the server named by DATABASE_URL cannot be used now: {_message(error)}")
        case _:
            return StoreUnavailableError(f"the server named by DATABASE_URL cannot be used: {_message(error)}")


def _message(error: Exception) -> str:
    """What the server answered, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


@asynccontextmanager
async def _client(target: DatabaseTarget) -> AsyncGenerator[asyncpg.Connection]:
    connection = await asyncpg.connect(
        **target.arguments(),
        timeout=math.ceil(CONNECT_TIMEOUT_SECONDS),
        command_timeout=CONNECT_TIMEOUT_SECONDS,
        statement_cache_size=0,  # a shared session may not know a statement that this client prepared
    )
    try:
        yield connection
    finally:
        connection.terminate()


async def _is_shared(one: asyncpg.Connection, other: asyncpg.Connection) -> bool:
    """Whether the server process changes within a client, or is the same for both."""
    try:
        first = await _pid(one)
        await other.execute("BEGIN")
        second = await _pid(other)
        await one.execute("BEGIN")
        again = await _pid(one)
        await one.execute("COMMIT")
        await other.execute("COMMIT")
        await other.execute("BEGIN")
        last = await _pid(other)
    except asyncpg.InvalidSQLStatementNameError:
        return True  # the statement was prepared in a session that is no longer ours
    return first == second or again != first or last != second


async def _pid(connection: asyncpg.Connection) -> int:
    """The number of the server process that answers."""
    pid = await connection.fetchval(_PID)
    return int(pid or 0)
