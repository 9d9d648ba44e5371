"""Compressed responses: long ones, to clients that ask, and never a secret or a stream."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator, Mapping

import pytest
from litestar import Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from support.http.service import Service, serving

from corral.api.middleware.auth import OPERATOR, VIEWER
from corral.api.middleware.compression import LEAST_BYTES, LEAST_BYTES_IN_THREAD
from corral.store.session.database import Database

LONG = {"long": "instance " * LEAST_BYTES_IN_THREAD}
PAGE = {"page": "instance " * LEAST_BYTES}
SHORT = {"short": "instance"}


def routes() -> list[HTTPRouteHandler]:
    """One of each kind that matters."""

    @get("/api/instances", opt=VIEWER)
    async def page() -> dict[str, str]:
        return PAGE

    @get("/long", opt=VIEWER)
    async def long() -> dict[str, str]:
        return LONG

    @get("/short", opt=VIEWER)
    async def short() -> dict[str, str]:
        return SHORT

    @get("/secret", opt=VIEWER)
    async def secret() -> Response[dict[str, str]]:
        return Response(PAGE, headers={"cache-control": "no-store"})

    @get("/stream", opt=VIEWER)
    async def stream() -> Stream:
        async def pieces() -> AsyncGenerator[bytes]:
            yield b"a" * LEAST_BYTES
            yield b"b" * LEAST_BYTES

        return Stream(pieces(), media_type="text/event-stream")

    @get("/picture", opt=VIEWER)
    async def picture() -> Response[bytes]:
        return Response(b"a" * LEAST_BYTES, media_type="image/png")

    @post("/made", opt=OPERATOR)
    async def made() -> dict[str, str]:
        return PAGE

    return [page, long, short, secret, stream, picture, made]


@pytest.fixture
async def service(database: Database) -> AsyncGenerator[Service]:
    async with serving(database, routes=routes()) as service:
        yield service


async def sent(service: Service, path: str, *, method: str = "GET", **headers: str) -> tuple[Mapping[str, str], bytes]:
    """The headers and the body as they were sent, before any decoding."""
    asked = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    request = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{asked}\r\n"
    head, _, body = (await service.raw(request.encode())).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    assert " 20" in status, head
    return dict(line.lower().split(": ", 1) for line in lines), body


@pytest.mark.parametrize("path", ["/api/instances", "/long"])
async def test_a_long_answer_is_compressed_for_a_client_that_asks(service: Service, path: str) -> None:
    """In the loop or in a thread; `Vary` says to caches in between that the header matters."""
    headers, body = await sent(service, path, accept_encoding="br, gzip;q=0.5")
    _, plain = await sent(service, path)

    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "accept-encoding")
    assert headers["content-length"] == str(len(body))
    assert len(body) < len(plain) / 10
    assert gzip.decompress(body) == plain


async def test_a_client_that_does_not_ask_gets_the_answer_as_it_is(service: Service) -> None:
    """Also when the compressed one was kept a moment before, and the other way round."""
    for accepted in ("gzip", "identity", "gzip", "gzip;q=0"):
        headers, body = await sent(service, "/api/instances", accept_encoding=accepted)
        assert ("content-encoding" in headers) == (accepted == "gzip"), accepted
        assert headers["content-length"] == str(len(body))


async def test_head_has_the_headers_of_get(service: Service) -> None:
    """A length that a GET does not have would mislead a client."""
    got, _ = await sent(service, "/api/instances", accept_encoding="gzip")
    headers, body = await sent(service, "/api/instances", method="HEAD", accept_encoding="gzip")

    assert body == b""
    assert {name: headers[name] for name in ("content-length", "content-encoding")} == {
        name: got[name] for name in ("content-length", "content-encoding")
    }


@pytest.mark.parametrize("path", ["/short", "/secret", "/stream", "/picture"])
async def test_what_must_not_or_need_not_be_compressed_is_left_alone(service: Service, path: str) -> None:
    """Small answers, answers marked no-store, streams, and what is compressed already."""
    headers, _ = await sent(service, path, accept_encoding="gzip")

    assert "content-encoding" not in headers


async def test_the_answer_to_a_change_is_left_alone(service: Service) -> None:
    """It may carry a secret, such as a new key."""
    headers, _ = await sent(service, "/made", method="POST", accept_encoding="gzip")

    assert "content-encoding" not in headers
