"""A wire to a server that can be cut, also after the server has done what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from support.http.servers import serving


class Wire:
    """Passes bytes on; each new connection is cut once it has passed the next of *cuts* back, the rest never."""

    def __init__(self, address: str, *cuts: int) -> None:
        self._host, _, port = address.removeprefix("http://").rpartition(":")
        self._port = int(port)
        self._cuts = list(cuts)
        self.sent: list[bytes] = []
        """What clients sent, one item a connection."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._cuts.pop(0) if self._cuts else None
        number = len(self.sent)
        self.sent.append(b"")
        there, forth = await asyncio.open_connection(self._host, self._port)

        async def pass_on() -> None:
            while piece := await reader.read(65536):
                self.sent[number] += piece
                forth.write(piece)

        passing = asyncio.create_task(pass_on())
        try:
            while piece := await there.read(65536):
                if left is not None and len(piece) > left:
                    writer.write(piece[:left])
                    await writer.drain()
                    return
                left = None if left is None else left - len(piece)
                writer.write(piece)
                await writer.drain()
        finally:
            passing.cancel()
            forth.close()
            with suppress(asyncio.CancelledError, ConnectionError):
                await passing

    def header(self, name: str) -> list[str]:
        """The values of header *name* in all that was sent."""
        lines = b"".join(self.sent).decode("latin-1").split("\r\n")
        return [line.split(":", 1)[1].strip() for line in lines if line.lower().startswith(name.lower() + ":")]


@asynccontextmanager
async def wired(address: str, *cuts: int) -> AsyncGenerator[tuple[Wire, str]]:
    """A wire to *address*, and the address of its near end."""
    wire = Wire(address, *cuts)
    async with serving(wire) as port:
        yield wire, f"http://127.0.0.1:{port}"
