"""
What every request passes first: request ids, authentication, limits, and the handler of last resort for errors.

It is a plain ASGI wrapper and no framework middleware, so that it also covers what the framework itself refuses: an
unknown path, a wrong method and a crash get the same error shape and the same headers.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import structlog
from litestar.config.cors import CORSConfig
from litestar.enums import ScopeType

from corral.api.http.bodies import IS_HERE
from corral.api.http.context import Identity, RequestContext, RequestIds, keep_context
from corral.api.http.errors import problem
from corral.api.http.limits import Limits
from corral.api.http.process_health import ProcessHealth
from corral.api.middleware.audit import AuditMiddleware
from corral.api.middleware.auth import CHANGING, Authenticator
from corral.api.middleware.rate_limit import RequestLimit, exceeded
from corral.api.middleware.request_span import finish, request_span
from corral.api.middleware.security import security_headers
from corral.base.clock import Clock
from corral.base.log import is_debugging, log
from corral.base.metrics import Metrics
from corral.domain.errors import CorralError, ForbiddenError, MalformedError, ShuttingDownError
from corral.domain.rate_limit import RateLimitState
from corral.engine.auth.audit_log import AuditLog

if TYPE_CHECKING:  # typing only: the edge works for any ASGI application
    from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

LONGEST_LENGTH = 20
"""Digits of a Content-Length that are converted; Python refuses to convert thousands of them."""
AUDITED_READ = "/credentials"
"""Reads whose path has this are audited like changes: they return passwords."""
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})

_PROCESS = secrets.token_hex(8)
_numbers = itertools.count(1)
"""A request id must be unique, not hard to guess; a counter costs less than random bytes."""

_WELL_FORMED = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The application with everything that surrounds it."""

    app: ASGIApp
    clock: Clock
    metrics: Metrics
    service_health: ProcessHealth
    limits: Limits
    authenticator: Authenticator
    audit: AuditLog
    request_limit: RequestLimit | None
    cors: CORSConfig | None
    """For errors sent from here; the framework adds these headers to its own responses."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; a WebSocket gets no response, and the server then refuses it."""
        if scope["type"] == ScopeType.HTTP:
            method = scope["method"]
            if method == "HEAD":
                # A copy, because the server reads the method of the original and then sends no body.
                scope, send = cast("HTTPScope", {**scope, "method": "GET"}), _HeadersOnly(send)
            headers = dict(scope["headers"])
            context = RequestContext(
                scope=scope, method=method, headers=headers, ids=request_ids(headers), clock=self.clock
            )
            keep_context(scope, context)
            if method in CHANGING or AUDITED_READ in scope["path"]:
                send = AuditMiddleware(trail=self.audit, context=context, send=send)
            await _Exchange(self, context, receive, send).serve()


class _HeadersOnly:
    """The `send` of a HEAD request, which is served as a GET: a stream ends with the first piece of its body."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ended = False

    async def __call__(self, message: Message) -> None:
        """Pass the headers on, and end the response with the first piece of the body."""
        if message["type"] == "http.response.start":
            await self._send(message)
        elif not self._ended:
            self._ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class _Exchange:
    """One request and its response."""

    def __init__(self, edge: Edge, context: RequestContext, receive: Receive, send: Send) -> None:
        self._edge, self._receive, self._send = edge, receive, send
        self._context, self._scope, self._ids = context, context.scope, context.ids
        self._headers = context.headers
        self._status: int | None = None
        self._waiting = True
        self._limit_state: RateLimitState | None = None
        self._body_bytes = 0
        self._body_due: float | None = None
        self._body_ended = False

    async def serve(self) -> None:
        """Serve the request; every exception becomes an error response."""
        began = self._edge.clock.monotonic()
        self._edge.service_health.callers_waiting += 1
        structlog.contextvars.bind_contextvars(  # the server gives each request a context of its own
            request_id=self._ids.request_id,
            correlation_id=self._ids.correlation_id,
            operation=f"{self._scope['method']} {self._scope['path']}",
        )
        with request_span(self._scope, self._headers) as span:
            try:
                identity = await self._identify()
                _admit(self._edge, self._scope, self._headers, identity)
                await self._edge.app(self._scope, self._limited_receive, self._named_send)
            except Exception as error:  # noqa: BLE001  # the outermost frame
                await self._send_error(error)
            finally:
                self._stop_waiting()
                finish(span, self._scope, self._context.method, self._status)
        if self._status is not None:
            self._count(self._status, self._edge.clock.monotonic() - began)

    async def _identify(self) -> Identity:
        """Identify the caller; raises RateLimitError when it sends too many requests."""
        identity = await self._edge.authenticator.identify(self._scope, self._headers)
        self._context.identity = identity
        if self._edge.request_limit is not None:
            self._limit_state = self._edge.request_limit.take(identity, self._scope["method"], self._scope["path"])
            if self._limit_state is not None and not self._limit_state.admitted:
                raise exceeded(self._limit_state)
        return identity

    async def _limited_receive(self) -> HTTPReceiveMessage:
        """Pass the body on while it is small enough and arrives fast enough."""
        message: Any
        if self._body_ended or IS_HERE in self._scope["state"]:
            # After the body only a disconnect can be received, and that has no time limit.
            message = await self._receive()
        else:
            try:
                async with asyncio.timeout(self._patience()):
                    message = await self._receive()
            except TimeoutError:
                raise MalformedError("the body did not arrive in time", code="REQUEST_TIMEOUT") from None
        if message["type"] == "http.request":
            self._body_bytes += len(message.get("body", b""))
            self._body_ended = not message.get("more_body", False)
            if self._body_bytes > self._edge.limits.body_bytes:
                raise _too_large(self._edge.limits)
        return cast("HTTPReceiveMessage", message)

    def _patience(self) -> float:
        """Seconds that the next piece of the body may take, within the time for all of it."""
        limits, now = self._edge.limits, self._edge.clock.monotonic()
        if self._body_due is None:
            self._body_due = now + limits.body_within_seconds
        if now >= self._body_due:
            raise TimeoutError  # a timeout of 0 would return a piece that is already there
        return min(limits.body_piece_within_seconds, self._body_due - now)

    async def _named_send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            given = message["headers"]
            ours = (*_id_headers(self._ids), *self._limit_headers(), *self._last(), *security_headers(given))
            message["headers"] = [*given, *ours]
        await self._send(message)
        if message["type"] == "http.response.body":
            self._stop_waiting()  # not at the start message, which waits for the audit line

    def _stop_waiting(self) -> None:
        """Stop counting the caller as waiting; once."""
        if self._waiting:
            self._waiting = False
            self._edge.service_health.callers_waiting -= 1

    def _last(self) -> list[tuple[bytes, bytes]]:
        """Close the connection after a response that is sent before the end of the body, which is not read."""
        if self._body_ended or not (self._body_due is not None or _announces_body(self._headers)):
            return []
        return [(b"connection", b"close")]

    def _limit_headers(self) -> list[tuple[bytes, bytes]]:
        request_limit, limit_state = self._edge.request_limit, self._limit_state
        return [] if request_limit is None or limit_state is None else request_limit.headers(limit_state)

    async def _send_error(self, error: Exception) -> None:
        """Send *error*; one after the start of the response can only be logged."""
        sent = problem(error, self._ids, self._edge.clock.now())
        if sent.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, CorralError):
            log.error("request.failed", path=self._scope["path"], exc_info=error)
        if self._status is not None:
            return
        headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in sent.headers.items()]
        headers.append((b"content-length", str(len(sent.body)).encode()))
        headers += _cors_headers(self._edge.cors, self._headers.get(b"origin"))
        await self._named_send({"type": "http.response.start", "status": sent.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": sent.body, "more_body": False})

    def _count(self, status: int, seconds: float) -> None:
        method, path = self._context.method, self._scope["path"]
        route = self._scope.get("path_template") or "(none)"
        self._edge.metrics.count_request(method, route, status, seconds)
        if is_debugging():
            log.debug("request.served", method=method, path=path, status=status, seconds=round(seconds, 6))


def _admit(edge: Edge, scope: HTTPScope, headers: Mapping[bytes, bytes], identity: Identity) -> None:
    """Raise if this request must not reach a route."""
    if identity.trusts_address and not _is_local(headers.get(b"host", b"")):
        raise ForbiddenError("this Corral serves this machine only: use http://localhost or http://127.0.0.1")
    if edge.service_health.stopping and not scope["path"].startswith("/health"):
        raise ShuttingDownError("this Corral is stopping; ask again in a moment", retry_after_seconds=5)
    if not _announces_body(headers):
        return
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and (len(length) > LONGEST_LENGTH or int(length) > edge.limits.body_bytes):
        raise _too_large(edge.limits)
    has_body = length not in {b"0", b""} or b"transfer-encoding" in headers
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if scope["method"] in CHANGING and has_body and media_type != b"application/json":
        raise MalformedError("the body must be application/json", code="UNSUPPORTED_MEDIA_TYPE")


def _announces_body(headers: Mapping[bytes, bytes]) -> bool:
    return b"content-length" in headers or b"transfer-encoding" in headers


def _cors_headers(cors: CORSConfig | None, origin: bytes | None) -> list[tuple[bytes, bytes]]:
    """The CORS headers for a page of an allowed origin."""
    if cors is None or origin is None or not cors.is_origin_allowed(origin.decode("latin-1")):
        return []
    exposed = ", ".join(cors.expose_headers).encode()
    return [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", exposed), (b"vary", b"Origin")]


def _too_large(limits: Limits) -> MalformedError:
    return MalformedError(f"the body may have at most {limits.body_bytes} bytes", code="BODY_TOO_LARGE")


def request_ids(headers: Mapping[bytes, bytes]) -> RequestIds:
    """The ids that the caller sent, if well-formed, else new ones."""
    request_id = _given(headers.get(b"x-request-id")) or f"req_{_PROCESS}{next(_numbers):08x}"
    return RequestIds(request_id=request_id, correlation_id=_given(headers.get(b"x-correlation-id")) or request_id)


def _given(value: bytes | None) -> str | None:
    return value.decode() if value is not None and _WELL_FORMED.fullmatch(value) else None


def _id_headers(ids: RequestIds) -> list[tuple[bytes, bytes]]:
    return [(b"x-request-id", ids.request_id.encode()), (b"x-correlation-id", ids.correlation_id.encode())]


@lru_cache(maxsize=64)
def _is_local(host_header: bytes) -> bool:
    """Whether a Host header names this machine; another name is a page elsewhere that resolves here (DNS rebinding)."""
    host = host_header.decode("latin-1")
    name = host.rsplit(":", 1)[0] if re.fullmatch(r".*:\d+", host) and not host.endswith("]") else host
    return name.lower() in LOCAL_HOSTS
