"""
The short way for plain wishes: `POST /api/instances` without a query, an idempotency key or a foreign page.

They come in crowds, and the framework's way to the route is a fifth of what one costs. Here the same parts do the same
work and give the same answer (a test compares the two); whatever is not plain goes to the framework.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from corral.api.http.bodies import whole_body
from corral.api.middleware.audit import WRITTEN
from corral.api.middleware.auth import OPERATOR, check
from corral.api.middleware.idempotency import HEADER
from corral.api.routes.instances import PATH, InstanceServices, created_answer, created_line

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

_NOT_PLAIN: Final = frozenset({HEADER.lower().encode(), b"origin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCreates:
    """The application behind the short way; the edge must have found out who asks."""

    app: ASGIApp
    desk: InstanceServices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Record a plain wish, or let the application answer."""
        request = cast("Any", scope)
        if request["method"] != "POST" or request["path"] != PATH or not _is_plain(request):
            await self.app(scope, receive, send)
            return
        request["path_template"] = PATH
        check(OPERATOR, request["state"]["identity"])
        order = await self.desk.orders.read(await whole_body(receive))
        answer = created_answer(await self.desk.commands.create(order, line_of=partial(created_line, request)))
        request["state"][WRITTEN] = True
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def _is_plain(request: Any) -> bool:
    return not request["query_string"] and _NOT_PLAIN.isdisjoint([name for name, _ in request["headers"]])
