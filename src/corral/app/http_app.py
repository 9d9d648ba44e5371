"""The HTTP side of one process: the application over an engine, and the tasks that feed it."""

from __future__ import annotations

from dataclasses import dataclass

from litestar.types import ASGIApp

from corral.api import app
from corral.api.http.limits import Limits
from corral.api.http.process_health import ProcessHealth
from corral.api.http.request_readers import RequestReader, order_defaults
from corral.api.middleware.response_cache import ResponseCache
from corral.api.routes.adoption import AdoptionServices
from corral.api.routes.instances import InstanceServices
from corral.api.routes.listing import ListingServices
from corral.api.routes.orphans import OrphanServices
from corral.app.engine import Engine
from corral.app.role import Role
from corral.base.settings import HttpSettings
from corral.base.supervision import BackgroundTask
from corral.dashboard import files
from corral.domain.rate_limit import RateLimit
from corral.engine.auth.request_counts import SharedRequestCounts
from corral.engine.events.stream import EventStream
from corral.engine.queries.fleet_gauges import FleetGauges
from corral.store.session.notifications import Notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSide:
    """The application of one process."""

    app: ASGIApp
    event_stream: EventStream
    background: tuple[BackgroundTask, ...]


def build_http_side(
    engine: Engine, role: Role, *, notices: Notifications, service_health: ProcessHealth, limits: Limits
) -> HttpSide:
    """The application for *role*; a worker serves health and metrics only."""
    dependencies = app_dependencies(engine, service_health=service_health, limits=limits)
    engine.runtime.metrics.registry.register(dependencies.gauges)
    event_stream = dependencies.event_hub
    event_stream.listen(notices)
    dependencies.answers.listen(notices)
    if role is Role.WORKER:
        return HttpSide(app=app.build(dependencies, only_watching=True), event_stream=event_stream, background=())
    background = [BackgroundTask("event streams", event_stream.run)]
    if dependencies.request_limit is not None:
        counts = SharedRequestCounts(dependencies.request_limit, engine.runtime.database, engine.runtime.clock)
        background.append(BackgroundTask("request counts", counts.run))
    return HttpSide(app=app.build(dependencies), event_stream=event_stream, background=tuple(background))


def app_dependencies(engine: Engine, *, service_health: ProcessHealth, limits: Limits) -> app.AppDependencies:
    """What the routes call, all of it from *engine*."""
    runtime = engine.runtime
    settings, clock, describer = runtime.settings, runtime.clock, engine.describer
    reader = RequestReader(order_defaults(settings), runtime.guard)
    return app.AppDependencies(
        clock=clock,
        metrics=runtime.metrics,
        service_health=service_health,
        queue=engine.queue,
        local_only=settings.http.is_loopback,
        allowed_origins=settings.http.allowed_origins,
        limits=limits,
        keys=engine.keys,
        audit=engine.audit,
        request_limit=_request_limit(settings.http),
        catalog=engine.catalog,
        caches=engine.caches,
        event_log=engine.event_log,
        event_hub=EventStream(engine.event_log, clock=clock, metrics=runtime.metrics),
        deliveries=engine.webhook_sender,
        instances=InstanceServices(
            create=engine.create, change=engine.change, reader=reader, queries=engine.queries, describer=describer
        ),
        fleet=engine.fleet,
        gauges=FleetGauges(engine.fleet),
        ready_word=settings.instances.ready_status,
        listing=ListingServices(listing=engine.listing, settings=settings.listing, clock=clock),
        orphans=OrphanServices(
            database=runtime.database, stuck=engine.stuck_sweep, view=describer.view, rule=settings.instances.orphans
        ),
        adoption=AdoptionServices(adopt=engine.adopt, reader=reader, describer=describer),
        answers=ResponseCache(clock),
        database=runtime.database,
        pages=files.handlers(),
    )


def _request_limit(chosen: HttpSettings) -> RateLimit | None:
    most = chosen.rate_limit_max_requests
    return RateLimit(most=most, window_seconds=chosen.rate_limit_window_ms / 1000) if most else None
