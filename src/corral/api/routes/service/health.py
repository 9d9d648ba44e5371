"""Is it alive, is it ready, how is it doing; and its numbers for Prometheus."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from litestar import Response, get
from litestar.datastructures import ResponseHeader
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from corral import __version__
from corral.api.http.process_health import ProcessHealth
from corral.api.middleware.auth import OPEN, VIEWER
from corral.base.clock import Clock
from corral.domain.timing import iso
from corral.engine.engine import Engine
from corral.engine.queries.fleet import FleetGauges

_PROMETHEUS_TEXT: Final = CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8")
"""The framework adds the charset; named twice, the type is not valid."""


class Liveness(msgspec.Struct):
    """The shortest answer."""

    status: str
    timestamp: str


class Health(msgspec.Struct):
    """How every part is."""

    status: str
    timestamp: str
    uptime: float
    """Seconds since this process started."""
    version: str
    services: dict[str, str]
    """By service: `up` or `down`, as last known."""
    dependencies: dict[str, object]
    """By dependency: details worth knowing."""


def handlers(clock: Clock, service_health: ProcessHealth, engine: Engine) -> list[HTTPRouteHandler]:
    """The routes every process serves, also a worker."""
    registry, gauges = engine.runtime.metrics.registry, FleetGauges(engine.fleet)
    registry.register(gauges)

    @get("/health", summary="Get the health of all parts", tags=["health"], opt=OPEN)
    async def get_health() -> Response[Health]:
        """200 when every part works, 503 otherwise. Sends no request: it shows the last known state."""
        now = clock.now()
        body = Health(
            status="healthy" if service_health.healthy else "unhealthy",
            timestamp=iso(now),
            uptime=round((now - service_health.started_at).total_seconds(), 3),
            version=__version__,
            services={name: "up" if up else "down" for name, up in service_health.up.items()},
            dependencies=dict(service_health.notes),
        )
        return Response(body, status_code=HTTPStatus.OK if service_health.healthy else HTTPStatus.SERVICE_UNAVAILABLE)

    @get("/health/live", summary="Check liveness", tags=["health"], opt=OPEN)
    async def check_liveness() -> Liveness:
        """Always 200 while the process responds; an orchestrator restarts it otherwise."""
        return Liveness(status="alive", timestamp=iso(clock.now()))

    @get("/health/ready", summary="Check readiness", tags=["health"], opt=OPEN)
    async def check_readiness() -> Response[Liveness]:
        """200 when requests can be served, 503 while starting, stopping or without a database."""
        body = Liveness(status="ready" if service_health.ready else "not ready", timestamp=iso(clock.now()))
        return Response(body, status_code=HTTPStatus.OK if service_health.ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @get(
        "/metrics",
        summary="Get metrics for Prometheus",
        tags=["health"],
        opt=VIEWER,
        media_type="text/plain",
        response_headers=[ResponseHeader(name="cache-control", value="no-store")],
    )
    async def get_prometheus_metrics() -> Response[bytes]:
        """
        Prometheus text format.

        Counters are this process's own. The numbers of the whole fleet are read from the database, and left out while
        it is away.
        """
        await gauges.refresh()
        return Response(generate_latest(registry), media_type=_PROMETHEUS_TEXT)

    return [get_health, check_liveness, check_readiness, get_prometheus_metrics]
