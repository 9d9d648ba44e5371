"""A server that cannot be used is refused at the start, in one sentence."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import asyncpg
import pytest
from support.database.pooler import cut, pooling
from support.http.servers import unused_port

from corral.domain.errors import SettingsError, StoreUnavailableError
from corral.store.server.server_check import check_server
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


@asynccontextmanager
async def _answering(answer: bytes) -> AsyncGenerator[int]:
    """A server that answers every first message with *answer* and hangs up; yields its port."""
    writers = set[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        await reader.read(1024)
        writer.write(answer)
        await reader.read(1024)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await cut(writers)


def refusing_tls() -> AbstractAsyncContextManager[int]:
    """A server without TLS."""
    return _answering(b"N")


def demanding_password() -> AbstractAsyncContextManager[int]:
    """A server that refuses every login, with PostgreSQL's message."""
    fields = b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "someone"\0\0'
    return _answering(b"E" + struct.pack("!i", len(fields) + 4) + fields)


@pytest.mark.parametrize("round_robin", [False, True])
@pytest.mark.parametrize("size", [2, 5])
async def test_transaction_pooling_is_refused(target: DatabaseTarget, size: int, *, round_robin: bool) -> None:
    """Session locks and LISTEN would silently stop to work: two leaders, and caches that miss changes."""
    async with pooling(target, "transaction", size, round_robin=round_robin) as url:
        with pytest.raises(SettingsError, match="transaction pooling"):
            await check_server(DatabaseTarget(url=url))


async def test_session_pooling_and_a_direct_connection_are_accepted(target: DatabaseTarget) -> None:
    """Both give every client a session of its own."""
    await check_server(target)
    async with pooling(target, "session", 5) as url:
        await check_server(DatabaseTarget(url=url))


async def test_a_pooler_without_a_free_session_is_named(target: DatabaseTarget) -> None:
    """It accepts every login and then answers nothing."""
    async with pooling(target, "session", 1) as url:
        with pytest.raises(StoreUnavailableError, match="pooler"):
            await check_server(DatabaseTarget(url=url))


async def test_a_process_that_gets_no_more_sessions_says_so_until_it_does(target: DatabaseTarget) -> None:
    """Its open connections work, so a trivial statement shows nothing; whatever needs one more waits."""
    async with pooling(target, "session", 2) as url:
        database = await Database.connect(DatabaseTarget(url=url), most_connections=3)
        other = await asyncpg.connect(url)
        try:
            await other.execute("SELECT 1")
            before = await database.probe()
            async with database.connection():
                with pytest.raises(StoreUnavailableError, match="pooler"):
                    async with database.connection():
                        pass
            during = await database.probe()
            other.terminate()
            await asyncio.wait_for(_recovered(database), 20)
        finally:
            other.terminate()
            await database.close()

    assert before.problem is None
    assert during.problem is not None
    assert "pooler" in during.problem
    assert "up to 6;" in during.problem, "three of the pool and three of its own"


async def _recovered(database: Database) -> None:
    while (await database.probe()).problem is not None:
        pass


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://{user}@/no_such_database?host={host}", 'database "no_such_database" does not exist'),
        ("postgresql://no_such_role@/{name}?host={host}", "the server refuses the login"),
        ("postgresql://u:hunter2@[::1/x", "DATABASE_URL cannot be read"),
        ("postgresql://u:hunter2@127.0.0.1:port/x", "DATABASE_URL cannot be read"),
        ("postgresql://{user}:hunter2@127.0.0.1:{silent}/x?sslmode=require", "encrypted connection"),
    ],
)
async def test_what_the_operator_must_change_is_named(target: DatabaseTarget, url: str, words: str) -> None:
    """One sentence that names the setting, without the password; no traceback."""
    async with refusing_tls() as port:
        address = url.format(user=target.user, host=target.host, name=target.database, silent=port)
        with pytest.raises(SettingsError) as caught:
            await check_server(DatabaseTarget(url=address))

    assert "DATABASE_URL" in caught.value.message
    assert words in caught.value.message
    assert "hunter2" not in caught.value.message


async def test_a_wrong_password_is_named() -> None:
    """The server's own words say for which user."""
    async with demanding_password() as port:
        with pytest.raises(SettingsError, match="refuses the login: password authentication failed") as caught:
            await check_server(DatabaseTarget(url=f"postgresql://someone:hunter2@127.0.0.1:{port}/x?sslmode=disable"))

    assert "hunter2" not in caught.value.message


async def test_a_server_that_is_away_is_not_a_setting_to_change() -> None:
    """It may come back: exit code 3, not 2."""
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        await check_server(DatabaseTarget(url=f"postgresql://u:{secrets.token_hex(4)}@127.0.0.1:{unused_port()}/x"))
