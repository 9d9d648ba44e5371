"""Bodies are read completely or refused."""

from __future__ import annotations

from typing import Any, cast

import pytest
from litestar import Request
from litestar.types import HTTPScope

from corral.api.http.bodies import body_of, read_body
from corral.domain.errors import MalformedError

CREATE_BODY = b'{"name":"a"}'


class Caller:
    """Sends a body in pieces."""

    def __init__(self, *messages: dict[str, object]) -> None:
        self._messages = list(messages)

    async def receive(self) -> Any:
        return self._messages.pop(0)


def piece(body: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.request", "body": body, "more_body": more}


def request_from(caller: Caller) -> Request[Any, Any, Any]:
    return Request(cast("HTTPScope", {"type": "http", "headers": []}), caller.receive)


async def test_pieces_make_one_body() -> None:
    """However they were cut."""
    caller = Caller(piece(CREATE_BODY[:3], more=True), piece(b"", more=True), piece(CREATE_BODY[3:], more=False))

    assert await body_of(request_from(caller)) == CREATE_BODY


async def test_a_truncated_create_request_is_refused() -> None:
    """Even when what arrived is valid JSON: more was to come, and the client has left."""
    caller = Caller(piece(CREATE_BODY, more=True), {"type": "http.disconnect"})

    with pytest.raises(MalformedError, match="hung up"):
        await body_of(request_from(caller))


async def test_what_was_read_can_be_read_again() -> None:
    """Middleware that reads the body first leaves it intact for the route."""
    caller = Caller(piece(CREATE_BODY[:3], more=True), piece(CREATE_BODY[3:], more=False), {"type": "http.disconnect"})
    read = await read_body(caller.receive)
    again = await read_body(cast("Any", read.receive))

    assert (read.content, again.content, read.is_whole, again.is_whole) == (CREATE_BODY, CREATE_BODY, True, True)
    assert await read.receive() == {"type": "http.disconnect"}
