"""
Carrying out faults on a connection: what HTTP libraries normally protect you from doing.

Needs the transport itself, which is why the simulator is served by aiohttp and not through ASGI.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
import zlib
from email.utils import formatdate

from aiohttp import web

from novitasim.faults.faults import Fault, Rule
from novitasim.server.clock import pause

_MIB = 1024 * 1024
_HUGE_BYTES = 1024 * _MIB
_BOMB_MIB = 256
_HANG_SECONDS = 120.0
_LOOK_SECONDS = 0.05  # how often a hanging call looks whether its client is still there
_NO_LINGER = struct.pack("ii", 1, 0)  # close by reset, not by the orderly end that a server would make
_CHUNK = b" " * 65_536
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

_FRONT_PAGE = (
    "<!DOCTYPE html><html><head><title>Access denied</title></head><body><h1>Error 1010</h1>"
    "<p>error code: 1010</p><p>The owner of this website has banned your access based on your browser's signature.</p>"
    "</body></html>"
)


class DroppedResponse(web.Response):
    """No response: the connection is closed and nothing may be written."""

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


def drop(request: web.Request) -> web.StreamResponse:
    """Break the connection (with a reset, as a dying proxy does) instead of answering."""
    if request.transport is not None:
        raw = request.transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        request.transport.abort()
    return DroppedResponse()


def front_page() -> web.Response:
    """The refusal of the front, which is not the provider's JSON."""
    return web.Response(status=403, text=_FRONT_PAGE, content_type="text/html")


def retry_after(form: str, seconds: int, wall: float) -> dict[str, str]:
    """The header that says when to ask again, in the form chosen."""
    match form:
        case "seconds":
            return {"Retry-After": str(seconds)}
        case "date":
            return {"Retry-After": formatdate(wall + seconds, usegmt=True)}
        case _:
            return {}


async def hang(request: web.Request, rule: Rule) -> web.StreamResponse:
    """Say nothing until the client has left or the time is up."""
    left = _HANG_SECONDS if rule.seconds is None else rule.seconds
    while left > 0 and request.transport is not None and not request.transport.is_closing():
        await pause(min(_LOOK_SECONDS, left))
        left -= _LOOK_SECONDS
    return drop(request)


async def spoil(request: web.Request, fault: Fault, content: bytes) -> web.StreamResponse:
    """The answer to a call that was done, spoilt on the way."""
    match fault:
        case Fault.GARBAGE:
            return web.Response(body=b"\x00\xff<<<upstream hiccup>>>", content_type="application/json")
        case Fault.WRONG_SHAPE:
            return web.Response(body=b'[{"unexpected":true}]', content_type="application/json")
        case Fault.TRUNCATED:
            return await _truncated(request, content)
        case Fault.ENDLESS_BODY:
            return await _stream(request, None)
        case Fault.HUGE_BODY:
            return await _stream(request, _HUGE_BYTES)
        case Fault.GZIP_BOMB:
            headers = {"Content-Encoding": "gzip"}
            return web.Response(body=_bomb(), headers=headers, content_type="application/json")
        case _:
            return drop(request)


async def _truncated(request: web.Request, content: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(content) + 2)})
    await response.prepare(request)
    await response.write(content[: max(1, len(content) // 2)])
    # Closed, not reset: what was written must arrive before the connection ends.
    if request.transport is not None:
        request.transport.close()
    return response


async def _stream(request: web.Request, size: int | None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    if size is not None:
        response.content_length = size
    await response.prepare(request)
    sent = 0
    with contextlib.suppress(ConnectionError):
        while size is None or sent < size:
            await response.write(_CHUNK)
            sent += len(_CHUNK)
    return response


@functools.cache
def _bomb() -> bytes:
    """A small gzip body that expands to much: one compressed block, repeated, which a full flush makes possible."""
    block = b" " * _MIB
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = squeeze.compress(block) + squeeze.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(_BOMB_MIB):
        crc = zlib.crc32(block, crc)
    end = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    return _GZIP_HEADER + packed * _BOMB_MIB + end + struct.pack("<II", crc, _BOMB_MIB * _MIB % 2**32)
