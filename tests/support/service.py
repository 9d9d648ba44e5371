"""The real application behind the real server, on a loopback port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
from litestar.handlers import HTTPRouteHandler

from corral.api.app import AppDependencies, build
from corral.api.http.limits import Limits
from corral.api.http.process_health import ProcessHealth
from corral.api.http.server import HttpServer, listen
from corral.api.middleware.response_cache import ResponseCache
from corral.api.routes.adoption import AdoptionServices
from corral.api.routes.instances import InstanceServices
from corral.api.routes.listing import ListingServices
from corral.api.routes.orphans import OrphanServices
from corral.base.clock import SystemClock
from corral.base.configuration import load
from corral.base.telemetry import Metrics
from corral.cache.registry import CacheRegistry
from corral.domain.rate_limit import RateLimit
from corral.engine.auth.api_keys import ApiKeys
from corral.engine.auth.audit_log import AuditLog
from corral.engine.events.log import EventLog
from corral.engine.events.stream import EventStream
from corral.engine.events.webhook_sender import WebhookSender
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.fleet import Fleet
from corral.engine.queries.fleet_gauges import FleetGauges
from corral.jobs.queue import JobQueue
from corral.jobs.registry import Registry
from corral.store.session.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A served application and a client for it."""

    address: str
    port: int
    parts: AppDependencies
    client: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        async with self.client.request(method, self.address + path, allow_redirects=False, **options) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(status=response.status, headers=headers, body=await response.read())

    async def raw(self, data: bytes) -> bytes:
        """Send *data* as it is and read until the server hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        await writer.drain()
        answer = await reader.read()
        writer.close()
        return answer


@asynccontextmanager
async def serving(
    database: Database,
    registry: Registry | None = None,
    *,
    limits: Limits | None = None,
    only_watching: bool = False,
    catalog: Catalog | None = None,
    caches: CacheInvalidation | None = None,
    event_log: EventLog | None = None,
    event_hub: EventStream | None = None,
    deliveries: WebhookSender | None = None,
    instances: InstanceServices | None = None,
    fleet: Fleet | None = None,
    ready_word: str = "ready",
    listing: ListingServices | None = None,
    adoption: AdoptionServices | None = None,
    orphans: OrphanServices | None = None,
    pages: Sequence[HTTPRouteHandler] = (),
    local_only: bool = True,
    book: CacheRegistry | None = None,
    request_limit: RateLimit | None = None,
    answers: ResponseCache | None = None,
) -> AsyncGenerator[Service]:
    """Serve over *database* for as long as this is open."""
    clock, limits = SystemClock(), limits or Limits()
    service_health = ProcessHealth(started_at=datetime(2030, 1, 1, tzinfo=UTC))
    service_health.report("database", up=True)
    metrics, gauges = Metrics(), None if fleet is None else FleetGauges(fleet)
    if gauges is not None:
        metrics.registry.register(gauges)
    parts = AppDependencies(
        clock=clock,
        metrics=metrics,
        service_health=service_health,
        queue=JobQueue(database, registry or Registry()),
        local_only=local_only,
        allowed_origins=("https://ops.example",),
        limits=limits,
        request_limit=request_limit,
        audit=AuditLog(database, clock, metrics),
        keys=ApiKeys(database, book or CacheRegistry(load({}).settings.caches, clock), clock),
        catalog=catalog,
        caches=caches,
        event_log=event_log,
        event_hub=event_hub,
        deliveries=deliveries,
        instances=instances,
        fleet=fleet,
        gauges=gauges,
        ready_word=ready_word,
        listing=listing,
        adoption=adoption,
        answers=answers,
        orphans=orphans,
        database=database,
        pages=pages,
    )
    listener = listen("127.0.0.1", 0)
    server = HttpServer(build(parts, only_watching=only_watching), listener, clock=clock, limits=limits)
    task = asyncio.create_task(server.serve())
    try:
        async with aiohttp.ClientSession() as client:
            yield Service(address=server.address, port=listener.getsockname()[1], parts=parts, client=client)
    finally:
        server.stop()
        await task


def error_of(answer: Answer, status: int, code: str) -> dict[str, Any]:
    """Assert that *answer* is an error in the one shape, with this status and code, and return it."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json) == ["error"]
    error: dict[str, Any] = answer.json["error"]
    assert error["code"] == code
    assert error["message"]
    datetime.strptime(error["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert error["timestamp"].count(".") == 1
    assert len(error["timestamp"].split(".")[1]) == len("123Z")
    assert error["requestId"] == answer.headers["x-request-id"]
    assert error["correlationId"] == answer.headers["x-correlation-id"]
    assert isinstance(error["retryable"], bool)
    return error
