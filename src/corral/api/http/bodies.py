"""Reads the whole body of a request; the edge limits its size and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from litestar import Request

from corral.domain.errors import MalformedError

if TYPE_CHECKING:
    from litestar.types import HTTPReceiveMessage, Receive


IS_HERE: Final = "body_is_here"
"""Key in the ASGI state: the server has received the whole body, so reading it needs no timeout."""


class ReadBody:
    """A body that was read, and can be received again."""

    def __init__(self, messages: list[HTTPReceiveMessage], rest: Receive) -> None:
        self._messages = messages
        self._rest = rest
        received: list[Any] = list(messages)
        self.content = b"".join([message.get("body", b"") for message in received])
        self.is_whole: bool = received[-1]["type"] == "http.request"
        """Whether it is complete; else the client disconnected."""

    async def receive(self) -> Any:
        """The messages that were received, then new ones."""
        return self._messages.pop(0) if self._messages else await self._rest()


async def read_body(receive: Receive) -> ReadBody:
    """Read to the end, or until the client disconnects."""
    messages: list[Any] = []
    while not messages or (messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False)):
        messages.append(await receive())
    return ReadBody(messages, receive)


async def body_of(request: Request[Any, Any, Any]) -> bytes:
    """The whole body; raises MalformedError if the client disconnects before it is complete."""
    read = await read_body(request.receive)
    if not read.is_whole:
        raise MalformedError("the client hung up before the end of the body")
    return read.content
