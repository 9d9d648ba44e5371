"""
The HTTP server: uvicorn on our event loop, with limits for clients that are slow or large on purpose.

Why uvicorn: docs/decisions/0003. It has no time-out for request headers and no limit to their size, and answers
unreadable requests in plain text; `PatientProtocol` adds what is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from litestar.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from corral.api.bodies import IS_HERE
from corral.api.limits import Limits
from corral.api.problems import RequestIds, problem
from corral.api.writes import JoinedWrites
from corral.clock import Clock
from corral.domain.errors import CorralError, CrowdedError, MalformedError, SettingsError
from corral.telemetry import log

if TYPE_CHECKING:
    from asyncio import TimerHandle

KEEP_ALIVE_SECONDS = 30
BACKLOG = 2048
SILENT_SECONDS = 10.0
"""Between two words about being full."""
ANSWERS_WITHIN_SECONDS = 5
"""How long answers under way may take once a stop was asked for; streams are ended by the application itself."""


class Door:
    """Lets only so many connections in, and says so now and then."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._silent_until = 0.0

    def admits(self, connections: int) -> bool:
        """Whether the last of so many may stay."""
        if connections <= self._most:
            return True
        now = self._clock.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + SILENT_SECONDS
            log.warning("server.full", connections=self._most)
        return False


class PatientProtocol(HttpToolsProtocol):
    """Waits for a request's headers only so long, and takes only so many."""

    def __init__(self, *arguments: Any, limits: Limits, door: Door, clock: Clock, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._limits = limits
        self._door = door
        self._clock = clock
        self._awaits_headers = False
        self._headers_due: TimerHandle | None = None
        """Runs while they are awaited; not for those that come in one piece, as most do."""
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait; one too many is told so at once."""
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        if self._door.admits(len(self.connections)):
            self._expect_headers()
            self._wait()
        else:
            self._hang_up(CrowdedError("this Corral has too many connections; ask again later", retry_after_seconds=5))

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._headers_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Refuse once the headers alone are larger than any honest client's."""
        super().data_received(data)
        if self._awaits_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.header_bytes:
                self.send_400_response("the request's headers are too large")
            elif self._headers_due is None:
                self._wait()

    def on_message_begin(self) -> None:
        """A request begins; on a kept-alive connection the wait begins anew."""
        super().on_message_begin()
        if not self._awaits_headers:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        """All headers are there."""
        self._headers_arrived()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The whole body is there; usually before anybody asks for it."""
        cast("Any", self.scope)["state"][IS_HERE] = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer an unreadable request in the same shape as everything else, and hang up."""
        self._headers_arrived()
        self._hang_up(MalformedError(msg, code="INVALID_REQUEST"))

    def _hang_up(self, error: CorralError) -> None:
        """Tell of *error*, which no request has a name for."""
        ids = RequestIds(request_id="unreadable", correlation_id="unreadable")
        answer = problem(error, ids, self._clock.now())
        headers = {**answer.headers, "content-length": str(len(answer.body)), "connection": "close"}
        lines = [f"HTTP/1.1 {answer.status:d} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
        self.transport.close()

    def _expect_headers(self) -> None:
        self._awaits_headers = True
        self._header_bytes = 0

    def _wait(self) -> None:
        self._headers_due = self.loop.call_later(self._limits.headers_within_seconds, self._give_up)

    def _headers_arrived(self) -> None:
        self._awaits_headers = False
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _give_up(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the whole process has one answer to a signal, and it is not here."""

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
                partial(PatientProtocol, limits=limits, door=Door(limits.connections, clock), clock=clock),
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
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
        """Take no more connections; `serve` returns when the answers under way are given."""
        self._server.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket; raises SettingsError with the way out when that cannot be."""
    try:
        found: list[tuple[Any, ...]] = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)  # from here on nobody is refused; they wait until we serve
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with PORT or --port"
        ) from error
    listener.set_inheritable(False)
    return listener
