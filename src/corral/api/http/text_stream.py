"""A response that is sent as it is made, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING

from corral.api.http.context import context_of

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send


class TextStream:
    """
    An ASGI application that sends *pieces*, the first of which was made already.

    An error in a later one ends the connection before the end of the body, so that no client takes it for whole.
    """

    def __init__(self, first: str, pieces: AsyncGenerator[str], *, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self._first = first
        self._pieces = pieces
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del receive
        async with aclosing(self._pieces) as pieces:
            await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": list(self._headers)})
            if context_of(scope).method != "HEAD":
                await send({"type": "http.response.body", "body": self._first.encode(), "more_body": True})
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
