"""A webhook receiver that answers as the test says, and remembers what it got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web
from standardwebhooks import Webhook

from support.engines.outbox import SECRET
from support.provider.upstream import upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, as it came."""

    id: str
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def event(self) -> str:
        return str(self.json["event"])


class Receiver:
    """Answers with *statuses* in turn, the last one for ever; every signature is checked by the official library."""

    def __init__(self, *statuses: int, headers: dict[str, str] | None = None) -> None:
        self._statuses = list(statuses) or [204]
        self._headers = headers or {}
        self.messages: list[Message] = []
        self.open = asyncio.Event()
        """While it is not set, messages are taken and not answered."""
        self.open.set()
        self.on_message: Callable[[], Awaitable[object]] | None = None
        self.address = ""

    @property
    def url(self) -> str:
        return f"{self.address}/hook/secret-path?token=secret-token"

    @property
    def events(self) -> list[str]:
        return [message.event.removeprefix("instance.") for message in self.messages]

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Receiver]:
        async with upstream(self._answer) as self.address:
            yield self
            self.open.set()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        message_id, timestamp = request.headers["webhook-id"], int(request.headers["webhook-timestamp"])
        expected = Webhook(SECRET).sign(message_id, datetime.fromtimestamp(timestamp, UTC), body.decode())
        assert request.headers["webhook-signature"] == expected
        assert request.path_qs == "/hook/secret-path?token=secret-token"
        self.messages.append(Message(id=message_id, body=body))
        if self.on_message is not None:
            await self.on_message()
        await self.open.wait()
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        return web.Response(status=status, headers=self._headers)
