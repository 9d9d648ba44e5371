"""The HTTP side of one process: the application over an engine, and the tasks that feed it."""

from __future__ import annotations

from dataclasses import dataclass

from litestar.types import ASGIApp

from corral.api import app
from corral.api.http.limits import Limits
from corral.api.http.process_health import ProcessHealth
from corral.api.middleware.proxy_login import ProxyLogin
from corral.api.middleware.response_cache import ResponseCache
from corral.app.role import Role
from corral.base.settings.settings import HttpSettings
from corral.base.supervision import BackgroundTask
from corral.dashboard import files
from corral.domain.rate_limit import RateLimit
from corral.engine.auth.request_counts import SharedRequestCounts
from corral.engine.engine import Engine
from corral.engine.events.stream import EventStream
from corral.engine.machine.log_relay import LogRelay
from corral.store.session.notifications import Notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSide:
    """The application of one process."""

    app: ASGIApp
    event_stream: EventStream
    logs: LogRelay
    background: tuple[BackgroundTask, ...]

    def end_streams(self) -> None:
        """End every response that would go on, because the process stops."""
        self.event_stream.stop()
        self.logs.stop()


def build_http_side(
    engine: Engine, role: Role, *, notices: Notifications, service_health: ProcessHealth, limits: Limits
) -> HttpSide:
    """The application for *role*; a worker serves health and metrics only."""
    dependencies = app_dependencies(engine, service_health=service_health, limits=limits)
    event_stream = dependencies.event_stream
    event_stream.listen(notices)
    dependencies.answers.listen(notices)
    if role is Role.WORKER:
        watching = app.build(dependencies, only_watching=True)
        return HttpSide(app=watching, event_stream=event_stream, logs=engine.logs, background=())
    background = [
        BackgroundTask("event streams", event_stream.run),
        BackgroundTask("utilization", engine.utilization.run),
    ]
    if dependencies.request_limit is not None:
        counts = SharedRequestCounts(dependencies.request_limit, engine.runtime.database, engine.runtime.clock)
        background.append(BackgroundTask("request counts", counts.run))
    return HttpSide(
        app=app.build(dependencies), event_stream=event_stream, logs=engine.logs, background=tuple(background)
    )


def app_dependencies(engine: Engine, *, service_health: ProcessHealth, limits: Limits) -> app.AppDependencies:
    """What the application of a service needs."""
    settings, clock = engine.runtime.settings, engine.runtime.clock
    http = settings.http
    return app.AppDependencies(
        engine=engine,
        clock=clock,
        service_health=service_health,
        local_only=http.is_loopback,
        allowed_origins=http.allowed_origins,
        proxy_login=ProxyLogin.of(settings.proxy_login),
        limits=limits,
        request_limit=_request_limit(http),
        event_stream=EventStream(engine.event_log, clock=clock, metrics=engine.runtime.metrics),
        answers=ResponseCache(clock),
        pages=files.handlers(),
    )


def _request_limit(chosen: HttpSettings) -> RateLimit | None:
    most = chosen.rate_limit_max_requests
    return RateLimit(most=most, window_seconds=chosen.rate_limit_window_ms / 1000) if most else None
