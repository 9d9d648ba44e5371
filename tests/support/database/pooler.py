"""A connection pooler in front of PostgreSQL, as PgBouncer is one: few server sessions, shared by many clients."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import Literal

from corral.store.server.target import DatabaseTarget

SSL_REQUEST = 80877103
OK = b"R" + struct.pack("!ii", 8, 0)
READY = b"Z" + struct.pack("!i", 5) + b"I"
IDLE = ord("I")

Mode = Literal["session", "transaction"]


class Session:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.parameters = b""
        """What the server said about itself, for every client."""


class _Client:
    """One connection of a client, and the session it has at the moment."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.session: Session | None = None
        self.answering: asyncio.Task[None] | None = None


class Pooler:
    """Hands at most *size* sessions of *target* to clients: for a transaction each, or for as long as they stay."""

    def __init__(self, target: DatabaseTarget, mode: Mode, size: int, *, round_robin: bool = False) -> None:
        self._target = target
        self._mode = mode
        self._free = asyncio.Semaphore(size)
        self._idle: deque[Session] = deque()
        self._round_robin = round_robin
        self._open_ends: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def close(self) -> None:
        """Close every connection; a client that still waits for a session gets none."""
        self._is_closed = True
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await cut(self._open_ends)

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client in a task that `close` can end; a client that comes later is refused."""
        if self._is_closed:
            writer.close()
            return
        self._open_ends.add(writer)
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(writer)
        try:
            await self._greet(reader, writer)
            while (message := await _message(reader))[:1] != b"X":
                if client.session is None:
                    client.session = await self._take()
                    client.answering = asyncio.create_task(self._answer(client, client.session))
                client.session.writer.write(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            if client.answering is not None:
                client.answering.cancel()
            if client.session is not None:
                client.session.writer.close()  # as PgBouncer does with a client that leaves in the middle
                self._free.release()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Log a client in without a session of the server, except for the first one's words."""
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            await reader.readexactly(length - 8)
            if code != SSL_REQUEST:
                break
            writer.write(b"N")
        known = await self._open()
        known.writer.close()
        writer.write(OK + known.parameters + READY)

    async def _take(self) -> Session:
        await self._free.acquire()
        if not self._idle:
            return await self._open()
        return self._idle.popleft() if self._round_robin else self._idle.pop()

    def _give_back(self, session: Session) -> None:
        self._idle.append(session)
        self._free.release()

    async def _open(self) -> Session:
        reader, writer = await asyncio.open_unix_connection(f"{self._target.host}/.s.PGSQL.5432")
        self._open_ends.add(writer)
        words = f"user\0{self._target.user}\0database\0{self._target.database}\0\0".encode()
        writer.write(struct.pack("!ii", len(words) + 8, 3 << 16) + words)
        session = Session(reader, writer)
        while (message := await _message(reader))[:1] != b"Z":
            if message[:1] in b"SK":
                session.parameters += message
        return session

    async def _answer(self, client: _Client, session: Session) -> None:
        """Pass on what the server answers, until it is idle outside of a transaction and may go to another client."""
        while True:
            message = await _message(session.reader)
            is_idle = message[:1] == b"Z" and message[-1] == IDLE
            if is_idle and self._mode == "transaction":
                client.session = None
                self._give_back(session)
            client.writer.write(message)
            if client.session is None:
                return


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


async def cut(writers: Collection[asyncio.StreamWriter]) -> None:
    """Close these connections without waiting for what their peers have not read."""
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


@asynccontextmanager
async def pooling(target: DatabaseTarget, mode: Mode, size: int, *, round_robin: bool = False) -> AsyncGenerator[str]:
    """A pooler in front of *target*; yields its address."""
    pooler = Pooler(target, mode, size, round_robin=round_robin)
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://{target.user}@127.0.0.1:{port}/{target.database}"
    finally:
        server.close()
        await pooler.close()
