"""The body of a request, read whole: the edge has bounded its size and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from litestar import Request

from corral.domain.errors import MalformedError

if TYPE_CHECKING:
    from litestar.types import HTTPReceiveMessage, Receive


IS_HERE: Final = "body_is_here"
"""In the state of a request: the server has received all of it, so that nobody need watch the time while reading."""


class ReadBody:
    """A body that was read, and can be received once more."""

    def __init__(self, messages: list[HTTPReceiveMessage], rest: Receive) -> None:
        self._messages = messages
        self._rest = rest
        received: list[Any] = list(messages)
        self.content = b"".join([message.get("body", b"") for message in received])
        self.is_whole: bool = received[-1]["type"] == "http.request"
        """Whether it was sent to its end; else the client has gone."""

    async def receive(self) -> Any:
        """What was received, message by message, and then what comes."""
        return self._messages.pop(0) if self._messages else await self._rest()


async def read_body(receive: Receive) -> ReadBody:
    """Read to the end, or until the client has gone."""
    messages: list[Any] = []
    while not messages or (messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False)):
        messages.append(await receive())
    return ReadBody(messages, receive)


async def body_of(request: Request[Any, Any, Any]) -> bytes:
    """The whole body; raises MalformedError when the client went before it was sent: half a wish is none."""
    return await whole_body(request.receive)


async def whole_body(receive: Receive) -> bytes:
    """The same, of a request that no framework has seen."""
    read = await read_body(receive)
    if not read.is_whole:
        raise MalformedError("the client hung up before the end of the body")
    return read.content
