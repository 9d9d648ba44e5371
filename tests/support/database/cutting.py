"""A TCP proxy in front of PostgreSQL that can stop forwarding without closing, as a host does that loses power."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from corral.store.server.cluster_files import SUPERUSER
from corral.store.server.target import DatabaseTarget


@dataclass(kw_only=True)
class Cable:
    """The connections through the proxy."""

    target: DatabaseTarget
    """Where to connect to be cut off later."""
    _forwarding: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._forwarding.set()

    def cut(self) -> None:
        """Forward nothing any more, in either direction, without closing either side."""
        self._forwarding.clear()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward bytes from one side to the other until it closes, and then close that."""
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._forwarding.wait()
                writer.write(data)
                await writer.drain()
            await self._forwarding.wait()
            writer.close()


@asynccontextmanager
async def cable(target: DatabaseTarget) -> AsyncGenerator[Cable]:
    """A proxy on a free loopback port for the server that *target* reaches through its socket."""
    assert target.host is not None
    socket_path = f"{target.host}/.s.PGSQL.5432"
    carrying: set[asyncio.Task[None]] = set()
    opened: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(socket_path)
        opened.extend((writer, server_writer))
        carrying.add(asyncio.create_task(line.carry(reader, server_writer)))
        carrying.add(asyncio.create_task(line.carry(server_reader, writer)))

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    line = Cable(
        target=DatabaseTarget(url=f"postgresql://{SUPERUSER}@127.0.0.1:{port}/{target.database}?sslmode=disable")
    )
    try:
        yield line
    finally:
        proxy.close()
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
        for writer in opened:
            writer.close()
