"""
One HTTP connection: uvicorn's protocol, with limits on slow, large and ambiguous clients.

What uvicorn lacks, and this adds: a time limit for request headers; limits to their number and size; trailers that are
dropped instead of appended to the headers; an idle timer that empty lines do not stop; a limit to requests sent ahead;
an end for clients that never read; responses in order when a later request cannot be read; errors in our own shape; and
HTTP/1.1 for requests that offer another protocol, with their body.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from corral.api.http.bodies import IS_HERE
from corral.api.http.coalesced_writes import CoalescedWrites
from corral.api.http.edge import request_ids
from corral.api.http.errors import problem
from corral.api.http.limits import ConnectionLimit, Limits
from corral.api.middleware.security import SECURITY_HEADERS
from corral.base.clock import Clock
from corral.domain.errors import CorralError, MalformedError, OverloadedError

if TYPE_CHECKING:
    from asyncio import TimerHandle

UNIQUE: Final = frozenset({
    b"host", b"origin", b"authorization", b"x-api-key", b"content-type", b"content-length", b"transfer-encoding",
    b"idempotency-key",
})  # fmt: skip
"""Headers that a request may carry once: of two values a proxy may check one, and the service use the other."""
HEADER_COST: Final = 300
"""Bytes of memory that a header takes beside its text; a request that is queued takes about ten times as much."""
_UPGRADING: Final = frozenset({b"upgrade", b"http2-settings"})


class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection, within the limits."""

    def __init__(self, *arguments: Any, limits: Limits, door: ConnectionLimit, clock: Clock, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._limits = limits
        self._door = door
        self._clock = clock
        self._awaits_headers = False
        self._headers_due: TimerHandle | None = None
        """Runs while they are awaited; not for those that come in one piece, as most do."""
        self._header_count = self._header_bytes = 0
        self._unfinished = 0
        """Bytes received since the last headers or piece of a body was complete."""
        self._held = 0
        """Bytes of memory held for requests that are not answered yet."""
        self._counted = 0
        """How many of them are counted among those of all connections."""
        self._unsent = 0
        self._offered_by: bytes | None = None
        """The method of a request that offers another protocol, while its headers are read again without the offer."""
        self._running: RequestResponseCycle | None = None
        self._refusal: CorralError | None = None
        """Set when nothing more is read; sent when the requests before it are answered."""

    # What the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for a request; close at once if there are too many connections."""
        self._joined = CoalescedWrites(transport, self.loop, unsent_within=self._limits.unsent_within_seconds)
        super().connection_made(cast("asyncio.Transport", self._joined))
        if self._door.admits(len(self.connections)):
            self._expect_headers()
            self._wait()
        else:
            self._refuse(
                OverloadedError("this Corral has too many connections; ask again later", retry_after_seconds=5)
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every timer, release what was held, and end the response under way and the requests behind it."""
        self._headers_arrived()
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            _disconnect(self._running)  # uvicorn does this only to the newest request
        self._joined.unwatch()
        self._hold(-self._held)
        self._door.unsent.change(self._unsent, 0)
        self._unsent = 0
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read *data*; refuse what is unreadable, too large, or too much for all connections together."""
        if self._refusal is not None:
            return
        self._unfinished += len(data)
        if not self._hold(len(data)):
            self._refuse(OverloadedError("too many large requests at once; ask again later", retry_after_seconds=5))
            return
        self._feed(data)
        if self._awaits_headers:
            self._hold(0)  # counts those that came
        if self._refusal is None and self._unfinished > self._limits.header_bytes:
            self._refuse(_unreadable("the request's headers are too large"))
        elif self._awaits_headers and self._headers_due is None and self._refusal is None:
            self._wait()

    def pause_writing(self) -> None:
        """Give the client only so long to take what is to be sent, and all clients only so much memory."""
        super().pause_writing()
        before, self._unsent = self._unsent, self._joined.get_write_buffer_size()
        if self._door.unsent.change(before, self._unsent):
            self._joined.watch()
        else:
            self._joined.abort()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._door.unsent.change(self._unsent, 0)
        self._unsent = 0
        if not self.transport.is_closing():
            self._joined.unwatch()
        super().resume_writing()

    # What the parser calls; raising ends its work

    def on_message_begin(self) -> None:
        """A request begins: the connection is not idle any more, and its headers are awaited."""
        self._unset_keepalive_if_required()
        super().on_message_begin()
        if not self._awaits_headers:
            self._expect_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer, which comes after them, is dropped."""
        if not self._awaits_headers:
            return
        self._header_count += 1
        self._header_bytes += len(name) + len(value)
        self._held += HEADER_COST
        if self._header_count > self._limits.headers:
            raise _RefusedError(_unreadable(f"the request has more than {self._limits.headers} headers"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """All headers are there: check what the parser does not, and serve."""
        self._headers_arrived()
        self._unset_keepalive_if_required()
        if self.parser.should_upgrade():
            self._offered_by = self.parser.get_method()
            if self._offered_by == b"CONNECT":
                raise _RefusedError(_unreadable("CONNECT is not offered"))
            return
        _check_headers(self.headers, self.parser.get_http_version())
        if self._header_bytes + len(self.url) > self._limits.header_bytes:
            raise _RefusedError(_unreadable("the request's headers are too large"))
        if len(self.pipeline) >= self._limits.queued_requests:
            raise _RefusedError(_unreadable("too many requests were sent ahead of their responses"))
        self._hold(10 * HEADER_COST)
        self._unfinished = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is complete, usually before the application reads it."""
        if self._offered_by is None:
            self._unfinished = 0
            cast("Any", self.scope)["state"][IS_HERE] = True
            super().on_message_complete()

    # What uvicorn calls

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Continue with the next request, or become idle."""
        super().on_response_complete()
        if self._running is not None and self._running.response_complete:
            self._hold(-self._held)
            if self._refusal is not None:
                self._hang_up(self._refusal)

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._serve_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.error if isinstance(cause, _RefusedError) else _unreadable("this is not valid HTTP"))

    def _serve_without_upgrade(self, rest: bytes) -> None:
        """
        Read the headers again, without the offer of another protocol, and then *rest*.

        The parser skips the body of a request that offers one, because what follows would be in that protocol.
        """
        method, self._offered_by = self._offered_by or b"", None
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        lines = [method + b" " + self.url + b" HTTP/1.1"]
        for name, value in self.headers:
            if name == b"connection":
                kept = [token for token in value.split(b",") if token.strip().lower() not in _UPGRADING]
                lines.append(b"connection: " + b",".join(kept).strip())
            elif name not in _UPGRADING:
                lines.append(name + b": " + value)
        self._feed(b"\r\n".join([*lines, b"", b""]) + rest)

    def _refuse(self, error: CorralError) -> None:
        """Read nothing more; send *error* at once, or after the responses to the requests before."""
        self._headers_arrived()
        self._refusal = error
        running, newest = self._running, self.cycle
        if self.pipeline and newest is self.pipeline[0][0] and newest.more_body:
            self.pipeline.popleft()  # the body that cannot be read is its
        if running is None or running.response_complete:
            self._hang_up(error)
        elif running is newest and running.more_body and not running.response_started:
            _disconnect(running)
            self._hang_up(error)
        else:
            self.flow.pause_reading()

    def _hang_up(self, error: CorralError) -> None:
        """Send *error*, which belongs to no request, and close."""
        ids = request_ids({})  # not those it sent: they may be of the request before
        answer = problem(error, ids, self._clock.now())
        headers = {**answer.headers, **SECURITY_HEADERS}
        headers |= {"x-request-id": ids.request_id, "x-correlation-id": ids.correlation_id}
        headers |= {"content-length": str(len(answer.body)), "connection": "close"}
        lines = [f"HTTP/1.1 {answer.status:d} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
        self.transport.close()

    def _hold(self, change: int) -> bool:
        """Hold *change* bytes more, count what is held, and return whether it may be."""
        self._held += change
        before, self._counted = self._counted, self._held
        return self._door.held.change(before, self._held)

    def _expect_headers(self) -> None:
        self._awaits_headers = True
        self._header_count = self._header_bytes = 0

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


class _RefusedError(Exception):
    """Raised to the parser, which stops and raises an error of its own."""

    def __init__(self, error: CorralError) -> None:
        super().__init__(error.message)
        self.error = error


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Make the application that serves *cycle* see that its client is gone."""
    cycle.disconnected = True
    cycle.message_event.set()


def _unreadable(message: str) -> MalformedError:
    return MalformedError(message, code="INVALID_REQUEST")


def _check_headers(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Raise if a header that must be unique is not, or the headers do not fit the version of HTTP."""
    names = [name for name, _ in headers]
    if len(names) != len(set(names)):
        for name in UNIQUE:
            if names.count(name) > 1:
                raise _RefusedError(_unreadable(f"the header {name.decode()} was sent more than once"))
    if version == "1.1" and b"host" not in names:
        raise _RefusedError(_unreadable("the header host is missing"))
    if b"transfer-encoding" in names:
        if version == "1.0":
            raise _RefusedError(_unreadable("HTTP/1.0 has no transfer-encoding"))
        if dict(headers)[b"transfer-encoding"].strip().lower() != b"chunked":
            raise _RefusedError(_unreadable("the transfer-encoding must be chunked, and nothing else"))
