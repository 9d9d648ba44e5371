"""A TCP proxy that can stop forwarding without closing anything, as a cable that is pulled out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

Dial = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Opens the connection to the server with a protocol made by the argument."""

SERVER_NOTICES_SECONDS = 20.0
"""
After how long the server's side of a cut connection is closed.

Replaces the server's TCP keepalives and user timeout, which see no packets behind a pulled cable; through a proxy
they would be answered. Shorter than the service asks for, and the run is kinder than a network; longer, and session
locks live longer than they would.
"""


class Proxy:
    """Forwards connections on a loopback port to a server, until it is cut."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.is_cut = False

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Half(self._new_link(), is_client=True), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for link in list(self._links):
            link.close()

    def cut(self) -> None:
        """Stop forwarding; open and new connections hang."""
        self.is_cut = True
        for link in self._links:
            link.cut()

    def mend(self) -> None:
        """Forward new connections again; those that were cut stay dead, as behind a router that forgot them."""
        self.is_cut = False

    def _new_link(self) -> _Link:
        link = _Link(self._dial, self._links.discard)
        self._links.add(link)
        if self.is_cut:
            link.cut()
        return link


class _Link:
    """One forwarded connection: the client's half, and the server's once it is open."""

    def __init__(self, dial: Dial, on_closed: Callable[[_Link], None]) -> None:
        self._dial, self._on_closed = dial, on_closed
        self._halves: dict[bool, _Half] = {}
        self._early: list[bytes] = []
        self._dialing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_cut = False

    def opened(self, half: _Half) -> None:
        self._halves[half.is_client] = half
        if half.is_client and not self._is_cut:
            self._dialing = asyncio.create_task(self._open_server())
        elif not half.is_client:
            for data in self._early:
                half.write(data)

    async def _open_server(self) -> None:
        try:
            await self._dial(lambda: _Half(self, is_client=False))
        except OSError:
            self.close()

    def forward(self, source: _Half, data: bytes) -> None:
        if self._is_cut:
            return
        other = self._halves.get(not source.is_client)
        if other is not None:
            other.write(data)
        elif source.is_client:
            self._early.append(data)

    def cut(self) -> None:
        self._is_cut = True
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SERVER_NOTICES_SECONDS, self._close_half, False)

    def lost(self, half: _Half) -> None:
        """One side ended; the other learns of it unless the cable is out."""
        self._halves.pop(half.is_client, None)
        if not self._is_cut:
            self.close()
        elif not self._halves:
            self._on_closed(self)

    def _close_half(self, is_client: bool) -> None:  # noqa: FBT001
        if (half := self._halves.get(is_client)) is not None:
            half.abort()

    def close(self) -> None:
        if self._dialing is not None and not self._dialing.done() and self._dialing is not asyncio.current_task():
            self._dialing.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for half in list(self._halves.values()):
            half.abort()
        self._on_closed(self)


class _Half(asyncio.Protocol):
    """One side of a link."""

    def __init__(self, link: _Link, *, is_client: bool) -> None:
        self._link, self.is_client = link, is_client
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._link.opened(self)

    def data_received(self, data: bytes) -> None:
        self._link.forward(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._link.lost(self)

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.close()
