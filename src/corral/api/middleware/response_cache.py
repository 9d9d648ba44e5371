"""
Answers about instances, sent again as they are while nothing changed: for a second at most.

Pages and scripts ask for the same instances over and over, and most of what an answer costs is reading and encoding
what was just read and encoded. Kept are whole answers, by exact address. All are forgotten as soon as anything is heard
to have changed, in any process, and before a request that may change something is answered; the second only bounds what
depends on the clock, such as `stale`. Who may not read an instance is refused before an answer is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from corral.api.http.context import context_of
from corral.api.middleware.auth import check
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
ROUTES: Final = frozenset({"/api/instances", "/api/instances/{instance_id}"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedResponse:
    """A whole answer with status 200."""

    route: str
    needs: Mapping[str, Any]
    """Whom the route admits."""
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class ResponseCache:
    """Responses of the last second, by path and query."""

    def __init__(self, clock: Clock) -> None:
        self._responses: Cache[CachedResponse] = Cache(
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
        self._responses.clear()

    def get(self, address: str) -> CachedResponse | None:
        """The response sent for *address* within the last second."""
        return self._responses.peek(address)

    def keep(self, address: str, response: CachedResponse) -> None:
        """Keep *response*; the oldest go when there are too many."""
        self._responses.put(address, response)


@dataclass(frozen=True, slots=True)
class ResponseCacheMiddleware:
    """The application behind its warm answers; the edge must have found out who asks."""

    app: ASGIApp
    answers: ResponseCache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or let the application answer and keep that."""
        request = cast("Any", scope)
        if request["method"] not in {"GET", "HEAD"}:
            await self.app(scope, receive, _Forgetting(self.answers, send))
            return
        if not self._is_kept(request):
            await self.app(scope, receive, send)
            return
        address = f"{request['path']}?{request['query_string'].decode('latin-1')}"
        kept = self.answers.get(address)
        if kept is None:
            hearing = _Hearing(self.answers, request, send)
            await self.app(scope, receive, hearing)
            hearing.keep(address)
            return
        check(kept.needs, context_of(scope).identity)
        request["path_template"] = kept.route
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": kept.headers})
        await send({"type": "http.response.body", "body": kept.body, "more_body": False})

    def _is_kept(self, request: Any) -> bool:
        """Whether its answer may be kept or come from there; one to a page of another origin is for that page alone."""
        return (
            request["method"] == "GET"
            and request["path"].startswith("/api/instances")
            and not any(name == b"origin" for name, _ in request["headers"])
        )


class _Forgetting:
    """Sends the answer to a request that may have changed something."""

    def __init__(self, answers: ResponseCache, send: Send) -> None:
        self._answers, self._send = answers, send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._answers.forget()
        await self._send(message)


class _Hearing:
    """Sends an answer on and remembers it."""

    def __init__(self, answers: ResponseCache, request: Any, send: Send) -> None:
        self._answers, self._request, self._send = answers, request, send
        self._changes = answers.changes
        self._headers: tuple[tuple[bytes, bytes], ...] | None = None
        self._body: bytes | None = None

    async def __call__(self, message: Message) -> None:
        heard = cast("Any", message)
        if heard["type"] == "http.response.start":
            self._headers = tuple(heard["headers"]) if heard["status"] == HTTPStatus.OK else None
        elif heard.get("more_body", False):
            self._headers = None
        else:
            self._body = heard["body"]
        await self._send(message)

    def keep(self, address: str) -> None:
        """Keep what was heard, if it is whole, of a route that is kept, and nothing changed meanwhile."""
        route = self._request.get("path_template")
        if self._headers is None or self._body is None or route not in ROUTES or self._changes != self._answers.changes:
            return
        needs = self._request["route_handler"].opt
        self._answers.keep(address, CachedResponse(route=route, needs=needs, headers=self._headers, body=self._body))
