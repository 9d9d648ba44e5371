"""A client as light as can be: one kept-alive connection that asks one thing at a time."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import NamedTuple, Self


class Answered(NamedTuple):
    """What came back."""

    status: int
    body: bytes


class Line:
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        """Connect with the first question."""
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Hang up."""
        self._hang_up()

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answered:
        """One question and its whole answer; ConnectionError when there is none. `_` in a header's name is `-`."""
        try:
            return await self._ask(method, path, body, headers)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._hang_up()
            raise ConnectionError(f"{method} {path} was not answered: {error!r}") from error

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answered:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        if body:
            more += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n{more}\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0] or b"0")
        return Answered(int(head[9:12]), await reader.readexactly(length))

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
