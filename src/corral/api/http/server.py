"""
The HTTP server: uvicorn on our event loop, with limits on slow and large clients.

Why uvicorn: docs/decisions/0003. `protocol.py` adds the limits that it lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Generator
from functools import partial
from typing import Any, cast

import uvicorn
from litestar.types import ASGIApp

from corral.api.http.limits import ConnectionLimit, Limits
from corral.api.http.protocol import LimitedHttpProtocol
from corral.base.clock import Clock
from corral.domain.errors import SettingsError

BACKLOG = 2048
ANSWERS_WITHIN_SECONDS = 5
"""How long responses may take after `stop`; streams are ended by the application."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers; `corral.app.process` handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class HttpServer:
    """One listening address."""

    def __init__(self, app: ASGIApp, listener: socket.socket, *, clock: Clock, limits: Limits) -> None:
        self._listener = listener
        config = uvicorn.Config(
            app=app,
            http=cast(
                "type[asyncio.Protocol]",
                partial(LimitedHttpProtocol, limits=limits, door=ConnectionLimit(limits, clock), clock=clock),
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # else uvicorn trusts the X-Forwarded-For of any program on this machine
            backlog=BACKLOG,
            timeout_keep_alive=cast("int", limits.idle_seconds),
            timeout_graceful_shutdown=ANSWERS_WITHIN_SECONDS,
        )
        self._server = _Server(config)

    @property
    def address(self) -> str:
        """Where it listens, as a URL."""
        host, port, *_ = self._listener.getsockname()
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def serve(self) -> None:
        """Serve until `stop`."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Accept no more connections; `serve` returns when the responses under way are sent."""
        self._server.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket; raises SettingsError with what to change when that fails."""
    try:
        found: list[tuple[Any, ...]] = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _notice_lost_clients(listener)
        listener.bind(address)
        listener.listen(BACKLOG)  # from here on connections wait in the backlog until they are served
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with PORT or --port"
        ) from error
    listener.set_inheritable(False)
    return listener


def _notice_lost_clients(listener: socket.socket) -> None:
    """
    Have the system end connections whose client's host lost power within two minutes; its default is two hours.

    Connections inherit the options of their listener.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
