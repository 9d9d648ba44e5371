"""The span of a request, if traces are on: below that of the caller, and named by its route."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from corral.base.tracing import tracing
from corral.base.tracing.tracing import NO_SPAN, Span, SpanKind

if TYPE_CHECKING:
    from litestar.types import HTTPScope

TRACED: Final = "/api/"
"""Requests below it have a span; probes, metrics and pages have none."""


def request_span(scope: HTTPScope, headers: Mapping[bytes, bytes]) -> Span:
    """The span of a request; one whose caller names no span, or an invalid one, begins a trace."""
    if not tracing.is_on() or not scope["path"].startswith(TRACED):
        return NO_SPAN
    parent = headers.get(b"traceparent")
    return tracing.span(scope["method"], SpanKind.SERVER, None if parent is None else parent.decode("latin-1"))


def finish(span: Span, scope: HTTPScope, method: str, status: int | None) -> None:
    """Name *span* by the route, which is known only now, and note the status; None: the client went away."""
    if span is NO_SPAN:
        return
    request = cast("dict[str, Any]", scope)
    route, parameters = request.get("path_template"), request.get("path_params") or {}
    if route is not None:
        span.rename(f"{method} {route}")
    failed = status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    span.note(failed=failed, method=method, route=route, status=status, instance_id=parameters.get("instance_id"))
