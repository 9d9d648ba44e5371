"""
Followers of an event stream: a program of its own, `fanout.py PORT FOLLOWERS EVENTS BODY`.

It opens the streams, makes EVENTS creates of BODY over a few connections, and waits until every follower has all of
them. Prints JSON: events delivered in all, the seconds from the first create to the last delivery, and how long the
slowest create took.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterator
from typing import cast

import uvloop

SENDERS = 8
FRAME = b"\ndata: "


class Follower(asyncio.Protocol):
    """One stream: counts frames."""

    def __init__(self, port: int, wanted: int) -> None:
        loop = asyncio.get_running_loop()
        self.greeted = loop.create_future()
        self.done = loop.create_future()
        self._port = port
        self._missing = wanted
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        request = f"GET /api/events/stream HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n\r\n"
        cast("asyncio.Transport", transport).write(request.encode())

    def data_received(self, data: bytes) -> None:
        """Count; a frame's mark may be cut in two."""
        seen = self._tail + data
        if not self.greeted.done() and b"retry: " in seen:
            self.greeted.set_result(None)
        self._missing -= seen.count(FRAME)
        self._tail = seen[1 - len(FRAME) :]
        if self._missing <= 0 and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """A hang-up before the end is an error."""
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server hung up"))


async def main(port: int, followers: int, events: int, body: str) -> None:
    """Follow, create, wait, print."""
    _, most_handles = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_handles, most_handles))
    loop = asyncio.get_running_loop()
    streams = [
        (await loop.create_connection(lambda: Follower(port, events), "127.0.0.1", port))[1] for _ in range(followers)
    ]
    await asyncio.gather(*(stream.greeted for stream in streams))
    left = iter(range(events))
    began = time.perf_counter()
    waits = await asyncio.gather(*(_send(port, left, body) for _ in range(SENDERS)))
    await asyncio.gather(*(stream.done for stream in streams))
    took = time.perf_counter() - began
    print(json.dumps({"answers": followers * events, "seconds": took, "longest": max(waits)}))


async def _send(port: int, left: Iterator[int], body: str) -> float:
    """Create while there are some *left*; answers the seconds of the slowest."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /api/instances HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
    longest = 0.0
    for _ in left:
        began = time.perf_counter()
        writer.write(request)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.partition(b"content-length: ")[2].split(b"\r\n", 1)[0]))
        longest = max(longest, time.perf_counter() - began)
    writer.close()
    return longest


if __name__ == "__main__":
    port, followers, events, body = sys.argv[1:]
    uvloop.run(main(int(port), int(followers), int(events), body))
