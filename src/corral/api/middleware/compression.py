"""
Compresses responses with gzip for clients that ask for it.

Only whole responses with status 200 to GET and HEAD are compressed, and none that is marked `no-store`: a secret next
to text that an attacker chooses must not be compressed, because the length shows what both have in common (BREACH). A
stream is sent as it is, so no event waits for a full buffer. The middleware is inside the response cache, which keeps
the compressed body: clients that poll the same page share the work.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from corral.api.http.context import context_of
from corral.base.static_files import accepts_gzip

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

LEAST_BYTES: Final = 4096
"""Of a body that is compressed. Fewer, and the answer about one instance, some 2,600 bytes, costs half as much CPU
again to save one packet; more, and short lists cross slow links uncompressed."""
LEAST_BYTES_IN_THREAD: Final = 128 * 1024
"""Of a body that a thread compresses: about a millisecond of work. Fewer, and the change of threads costs more than it
saves; more, and every other request waits for it."""
LEVEL: Final = 1
"""Of zlib: on pages of instances level 6 takes four times as long for a sixth fewer bytes."""
_TYPES: Final = (b"application/json", b"text/", b"application/vnd.oai.openapi+json", b"application/openmetrics-text")


def asks_for_gzip(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the client of a request with these *headers* takes gzip."""
    accepted = headers.get(b"accept-encoding")
    return accepted is not None and accepts_gzip(accepted.decode("latin-1"))


@dataclass(frozen=True, slots=True)
class CompressionMiddleware:
    """The application, with its long responses compressed."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; a client that does not ask for gzip is served by the application itself."""
        if cast("Any", scope)["method"] == "GET" and asks_for_gzip(context_of(scope).headers):
            send = _CompressedSend(send)
        await self.app(scope, receive, send)


class _CompressedSend:
    """A `send` that compresses a response which comes whole; HEAD is served as a GET and gets the same headers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Any = None

    async def __call__(self, message: Message) -> None:
        """Hold the start back until the first piece of the body shows whether there are more."""
        if message["type"] == "http.response.start" and _may_be_compressed(message):
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            body: bytes = cast("Any", message).get("body", b"")
            if len(body) >= LEAST_BYTES and not cast("Any", message).get("more_body", False):
                body = await _compressed(body)
                start = cast("Any", {**start, "headers": _headers_of(start["headers"], len(body))})
                message = cast("Message", {**message, "body": body})
            await self._send(start)
        await self._send(message)


def _may_be_compressed(start: Any) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    return (
        start["status"] == HTTPStatus.OK
        and b"content-encoding" not in headers
        and b"no-store" not in headers.get(b"cache-control", b"")
        and headers.get(b"content-type", b"").startswith(_TYPES)
    )


async def _compressed(body: bytes) -> bytes:
    if len(body) < LEAST_BYTES_IN_THREAD:
        return _gzip(body)
    return await asyncio.to_thread(_gzip, body)


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)  # without the time: equal bodies stay equal


def _headers_of(headers: Any, length: int) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    ours = ((b"content-length", b"%d" % length), (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return [*kept, *ours]
