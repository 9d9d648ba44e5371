"""
Responses about instances, sent again for up to a second while nothing changed.

Pages and scripts poll the same instances, and most of the cost of a response is reading and encoding. Whole responses
are kept by path, query and content coding. All are dropped when any process changes an instance, and before the
response to a request that may change something; the second bounds only what depends on the clock, such as `stale`. The
caller's role is checked before a kept response is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from corral.api.http.context import context_of
from corral.api.middleware.auth import check
from corral.api.middleware.compression import asks_for_gzip
from corral.base.clock import Clock
from corral.cache.cache import Cache, SizeLimit
from corral.store.session.notifications import Notifications
from corral.store.tables import events, instances

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

KEPT_SECONDS: Final = 1.0
MOST_BYTES: Final = 8 * 2**20
"""Of all bodies together; a page of a hundred instances has some hundred thousand. Fewer, and long pages push each
other out within the second; more only costs memory."""
MOST_RESPONSES: Final = 10_000
"""More different addresses than one process serves in a second."""
MESSAGES_OF_ONE_PIECE: Final = 2
"""Of a response that comes whole: its start and its body."""
ROUTES: Final = frozenset({"/api/instances", "/api/instances/{instance_id}"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedResponse:
    """A whole response with status 200."""

    route: str
    needs: Mapping[str, Any]
    """The `opt` of the route, with the role it needs."""
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class ResponseCache:
    """Responses of the last second, by path, query and content coding."""

    def __init__(self, clock: Clock) -> None:
        self.kept: Cache[CachedResponse] = Cache(
            ttl_seconds=KEPT_SECONDS,
            most_entries=MOST_RESPONSES,
            size_limit=SizeLimit(most=MOST_BYTES, size_of=lambda response: len(response.body)),
            clock=clock,
        )
        self.changes = 0
        """How often everything was dropped: a response begun before the last time may be old."""

    def listen(self, notices: Notifications) -> None:
        """Drop everything whenever an instance changes, and when a notification may have been missed."""
        for topic in (instances.TOPIC, events.TOPIC):
            notices.subscribe(topic, lambda _key: self.forget())
        notices.on_gap(self.forget)

    def forget(self) -> None:
        """Drop everything, because something changed."""
        self.changes += 1
        self.kept.clear()


@dataclass(frozen=True, slots=True)
class ResponseCacheMiddleware:
    """The application behind its kept responses."""

    app: ASGIApp
    responses: ResponseCache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a kept response, or let the application respond and keep that."""
        request = cast("Any", scope)
        if request["method"] not in {"GET", "HEAD"}:
            await self.app(scope, receive, self._dropping(send))
            return
        context = context_of(scope)
        if not _may_be_kept(request, context.headers):
            await self.app(scope, receive, send)
            return
        address = f"{request['path']}?{request['query_string'].decode('latin-1')}"
        if asks_for_gzip(context.headers):
            address += " gzip"  # a space is in no query
        kept = self.responses.kept.peek(address)
        if kept is None:
            changes, messages = self.responses.changes, list[Any]()

            async def recording(message: Message) -> None:
                if len(messages) < MESSAGES_OF_ONE_PIECE + 1:  # a stream is passed on, and not held
                    messages.append(message)
                await send(message)

            await self.app(scope, receive, recording)
            response = _whole_response(request, messages)
            if response is not None and changes == self.responses.changes:
                self.responses.kept.put(address, response)
            return
        check(kept.needs, context.identity)
        request["path_template"] = kept.route
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": kept.headers})
        await send({"type": "http.response.body", "body": kept.body, "more_body": False})

    def _dropping(self, send: Send) -> Send:
        """A `send` that drops every kept response before the response to a request that may have changed something."""

        async def dropping(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.responses.forget()
            await send(message)

        return dropping


def _may_be_kept(request: Any, headers: Mapping[bytes, bytes]) -> bool:
    """Whether its response may be kept; one to a page of another origin has that page's CORS headers."""
    return request["method"] == "GET" and request["path"].startswith("/api/instances") and b"origin" not in headers


def _whole_response(request: Any, messages: list[Any]) -> CachedResponse | None:
    """The response of *messages*, if it came in one piece, with status 200, from a route in `ROUTES`."""
    route = request.get("path_template")
    if route not in ROUTES or len(messages) != MESSAGES_OF_ONE_PIECE or messages[0]["status"] != HTTPStatus.OK:
        return None
    start, rest = messages
    needs = request["route_handler"].opt
    return CachedResponse(route=route, needs=needs, headers=tuple(start["headers"]), body=rest["body"])
