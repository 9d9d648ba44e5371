"""The application: its routes and middleware, and the translation of the framework's errors into ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from litestar import Litestar, Request, Response, Router
from litestar.config.cors import CORSConfig
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import Contact, License
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp

from corral import __version__
from corral.api.http.context import context_of
from corral.api.http.edge import Edge
from corral.api.http.errors import problem
from corral.api.http.limits import Limits
from corral.api.http.parameters import field_problems
from corral.api.http.process_health import ProcessHealth
from corral.api.http.request_readers import RequestReader
from corral.api.middleware.auth import OPEN, Authenticator, Authority
from corral.api.middleware.compression import CompressionMiddleware
from corral.api.middleware.idempotency import IdempotencyMiddleware
from corral.api.middleware.proxy_login import ProxyLogin
from corral.api.middleware.rate_limit import RequestLimit
from corral.api.middleware.response_cache import ResponseCache, ResponseCacheMiddleware
from corral.api.openapi.document import CompletedJson, keep_steady, operation_id
from corral.api.routes import actions, audit, catalog, events, instances, keys, orphans, webhooks
from corral.api.routes.costs import budgets, costs, export, forecast, reconciliations
from corral.api.routes.leases import auto_stop, fleet, lease
from corral.api.routes.machine import credentials, logs, utilization
from corral.api.routes.service import caches, docs, health, jobs, metrics, settings
from corral.base.clock import Clock
from corral.base.log import log
from corral.domain import errors
from corral.domain.rate_limit import RateLimit
from corral.engine.engine import Engine
from corral.engine.events.stream import EventStream

EXPOSED = (
    "Idempotent-Replayed", "Retry-After", "X-Correlation-ID", "X-Request-ID",
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
)  # fmt: skip
"""The response headers that a page of an allowed origin may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppDependencies:
    """The engine behind the routes, and what belongs to HTTP alone."""

    engine: Engine
    clock: Clock
    service_health: ProcessHealth
    local_only: bool
    allowed_origins: tuple[str, ...]
    proxy_login: ProxyLogin | None = None
    limits: Limits
    request_limit: RateLimit | None
    """The limit on requests of one caller; None for no limit."""
    event_stream: EventStream
    answers: ResponseCache
    """Keeps responses about instances for up to a second."""
    pages: Sequence[HTTPRouteHandler]
    """Pages for browsers, such as the dashboard."""


def build(parts: AppDependencies, *, only_watching: bool = False) -> ASGIApp:
    """
    The application for these parts, ready for any ASGI server; it needs no lifespan events.

    With *only_watching* it serves health and metrics and nothing else, as a worker's port does.
    """
    engine = parts.engine
    observed = health.handlers(parts.clock, parts.service_health, engine)
    if only_watching:
        return build_around(observed, parts, has_document=False)
    reader = RequestReader(engine.runtime.create_defaults, engine.runtime.guard)
    routes: list[HTTPRouteHandler | Router] = [
        *observed,
        *docs.handlers(),
        *jobs.handlers(engine.queue),
        *audit.handlers(engine.audit),
        *keys.handlers(engine, local_only=parts.local_only),
        *settings.handlers(engine.runtime.settings),
        *catalog.handlers(engine.catalog),
        *caches.handlers(engine.caches),
        *metrics.handlers(engine),
        *costs.handlers(engine.costs),
        *reconciliations.handlers(engine.bill_reconciler),
        *forecast.handlers(engine.forecasts, engine.account),
        *export.handlers(engine.exports),
        *events.handlers(engine.event_log, parts.event_stream, engine.keys),
        *webhooks.handlers(engine.webhook_sender),
        *instances.handlers(engine, reader, parts.clock),
        *actions.handlers(engine, reader),
        *lease.handlers(engine),
        *auto_stop.handlers(engine),
        *fleet.handlers(engine),
        *orphans.handlers(engine),
        *budgets.handlers(engine),
        *credentials.handlers(engine.credentials, engine.audit),
        *utilization.handlers(engine.metrics, engine.utilization),
        *logs.handlers(engine.logs, engine.image_pulls, engine.keys),
        Router("/", route_handlers=parts.pages, opt=OPEN),
    ]
    return build_around(routes, parts)


def build_around(
    routes: Sequence[HTTPRouteHandler | Router], parts: AppDependencies, *, has_document: bool = True
) -> ASGIApp:
    """The application that serves *routes*, with the same middleware whichever they are."""
    origins = parts.allowed_origins
    cors = CORSConfig(allow_origins=list(origins), expose_headers=list(EXPOSED)) if origins else None
    app = Litestar(
        route_handlers=routes,
        exception_handlers={Exception: partial(_error_response, parts.clock)},
        openapi_config=_openapi() if has_document else None,
        middleware=[
            DefineMiddleware(Authority),  # first: a stored response is shown only to callers that the route admits
            DefineMiddleware(
                IdempotencyMiddleware,
                database=parts.engine.runtime.database,
                clock=parts.clock,
                patience=parts.limits.first_answer_within_seconds,
                secret_key=parts.engine.runtime.secret_key,
            ),
        ],
        cors_config=cors,
        request_max_body_size=parts.limits.body_bytes,
        debug=False,
        logging_config=None,
    )
    if has_document:
        keep_steady(app)
    _know_every_method(app)
    engine, limit = parts.engine, parts.request_limit
    return Edge(
        app=ResponseCacheMiddleware(CompressionMiddleware(cast("ASGIApp", app)), parts.answers),
        clock=parts.clock,
        metrics=engine.runtime.metrics,
        service_health=parts.service_health,
        limits=parts.limits,
        authenticator=Authenticator(
            keys=engine.keys,
            local_only=parts.local_only,
            allowed_origins=frozenset(origins),
            proxy=parts.proxy_login,
        ),
        audit=engine.audit,
        request_limit=None if limit is None else RequestLimit(limit=limit, clock=parts.clock),
        cors=cors,
    )


def _openapi() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Corral",
        version=__version__,
        summary="GPU instances on novita.ai: ready, at the lowest price, none lost, none billed twice.",
        description=(
            "A service that listens on this machine only needs no key. The examples read the service's address and the "
            "key from `CORRAL_URL` and `CORRAL_API_KEY`.\n\nHEAD works wherever GET does. An id in a path that cannot "
            "be one is 404, as any unknown id is; a parameter or field that is not valid is 400, and "
            "`validationErrors` lists all of them."
        ),
        contact=Contact(name="The Corral maintainers"),
        operation_id_creator=operation_id,
        use_handler_docstrings=True,
        license=License(name="Apache-2.0", identifier="Apache-2.0"),
        openapi_router=Router("/schema", route_handlers=[], opt=OPEN, include_in_schema=False),
        render_plugins=[CompletedJson()],
    )


def _know_every_method(app: Litestar) -> None:
    """
    Have OPTIONS list every method of a path, and HEAD with GET, as the edge serves it.

    The framework's OPTIONS handler holds the methods that the path had when its first route was added.
    """
    for route in (route for route in app.routes if isinstance(route, HTTPRoute)):
        for handler in route.route_handlers:
            for cell in getattr(handler.fn, "__closure__", None) or ():
                if isinstance(cell.cell_contents, HTTPRoute):
                    cell.cell_contents.methods = with_head(route.methods)


def with_head(methods: Iterable[str]) -> Any:
    """*methods*, and HEAD where there is GET."""
    listed = set(methods)
    return listed | {"HEAD"} if "GET" in listed else listed


def _error_response(clock: Clock, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The response to an error raised in or before a route."""
    ours = _ours(request, error)
    sent = problem(ours, context_of(request.scope).ids, clock.now(), headers=_framework_headers(error))
    if sent.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(ours, errors.CorralError):
        log.error("request.failed", path=request.scope["path"], exc_info=error)
    return Response(sent.body, status_code=sent.status, headers=dict(sent.headers), media_type="application/json")


def _ours(request: Request[Any, Any, Any], error: Exception) -> Exception:
    """Our error for one of the framework's; others are returned unchanged."""
    path = request.scope["path"]
    match error:
        case ValidationException():
            return errors.SpecInvalidError(field_problems(request, error))
        case HTTPException(status_code=HTTPStatus.NOT_FOUND):
            return errors.NotFoundError(f"there is no {path}; /docs lists what there is")
        case HTTPException(status_code=HTTPStatus.METHOD_NOT_ALLOWED):
            return errors.CallerError(f"{path} does not take {request.method}", code="METHOD_NOT_ALLOWED")
        case HTTPException(status_code=HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
            return errors.MalformedError("the body is too large", code="BODY_TOO_LARGE")
        case HTTPException(status_code=HTTPStatus.BAD_REQUEST):
            return errors.MalformedError("the body is not valid JSON")
        case UnicodeDecodeError():
            return errors.MalformedError("the body is not valid JSON: it is not UTF-8")
        case RecursionError():
            return errors.MalformedError("the body is nested too deeply")
        case _:
            return error


def _framework_headers(error: Exception) -> dict[str, str]:
    """The headers of a framework error, such as Allow."""
    headers = {k.lower(): v for k, v in (error.headers or {}).items()} if isinstance(error, HTTPException) else {}
    if "allow" in headers:
        headers["allow"] = ", ".join(sorted(with_head(headers["allow"].split(", "))))
    return headers
