"""Small servers on loopback that answer, or misbehave, as the test says."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from ssl import SSLContext
from typing import TypeAlias

Answer: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

CERTIFICATE = Path(__file__).parent / "selfsigned.pem"
"""Certificate and key of an untrusted server."""


@asynccontextmanager
async def serving(answer: Answer, *, tls: SSLContext | None = None) -> AsyncGenerator[int]:
    """Accept connections on a free port, which is yielded, and let *answer* deal with each."""
    talks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # the client has left
                await answer(reader, writer)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        talks.add(asyncio.create_task(talk(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for writer in writers:  # a task that is cancelled before its first step does not close its own
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


class HttpAnswers:
    """Reads requests and sends prepared answers in turn, the last one for ever; remembers what was asked."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next(
            (int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:")), 0
        )
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(length))
        writer.write(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])
        await writer.drain()

    def header(self, name: str, request: int = -1) -> str | None:
        """The value of header *name* of a request, by default the last one."""
        for line in self.heads[request].splitlines()[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None


def http_answer(status: int, body: bytes = b"", *, content_type: str = "text/html", **headers: str) -> bytes:
    """An HTTP answer that closes its connection."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def unused_port(host: str = "127.0.0.1") -> int:
    """A port without a listener, below those that the system gives to sockets that ask for any free one."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)  # not of `random`, which has the same seed in every worker
        with socket.socket() as probe, suppress(OSError):
            probe.bind((host, port))
            return port
