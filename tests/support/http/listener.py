"""A client of the event stream, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec


class Listener:
    """Reads server-sent events as they come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def block(self) -> list[str]:
        """The lines of the next event or comment; empty when the stream has ended."""
        lines: list[str] = []
        async with asyncio.timeout(30):
            while line := (await self.response.content.readline()).decode():
                if line == "\n":
                    return lines
                lines.append(line.rstrip("\n"))
        return lines

    async def events(self, count: int) -> list[tuple[int, Any]]:
        """The next *count* events, by number and content; comments are passed over."""
        found: list[tuple[int, Any]] = []
        while len(found) < count:
            lines = await self.block()
            assert lines, "the stream ended"
            if not lines[0].startswith(":"):
                number, data = lines
                found.append((int(number.removeprefix("id: ")), msgspec.json.decode(data.removeprefix("data: "))))
        return found


@asynccontextmanager
async def listening(
    address: str, query: str = "", *, last_event_id: int | None = None, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[Listener]:
    """A client that is connected to the stream, for the length of the block."""
    headers = {**(headers or {}), **({} if last_event_id is None else {"Last-Event-ID": str(last_event_id)})}
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{address}/api/events/stream{query}", headers=headers) as response,
    ):
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        listener = Listener(response)
        assert await listener.block() == ["retry: 1000"]
        yield listener
