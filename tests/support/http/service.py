"""The real application behind the real server, on a loopback port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
from litestar.handlers import HTTPRouteHandler
from pydantic import SecretStr

from corral.api.app import AppDependencies, build, build_around
from corral.api.http.limits import Limits
from corral.api.http.process_health import ProcessHealth
from corral.api.http.server import HttpServer, listen
from corral.app.http_app import app_dependencies
from corral.base.clock import Clock, SystemClock
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.cloud.port import Cloud
from corral.engine.build import build_engine
from corral.engine.engine import Engine
from corral.store.session.database import Database
from support.engines.runtime import idle_runtime

UNREACHABLE = "http://127.0.0.1:9"
"""Nothing listens there."""


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
    engine: Engine
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
    *,
    engine: Engine | None = None,
    cloud: Cloud | None = None,
    clock: Clock | None = None,
    limits: Limits | None = None,
    only_watching: bool = False,
    routes: Sequence[HTTPRouteHandler] = (),
    local_only: bool = True,
    **parts: Any,
) -> AsyncGenerator[Service]:
    """
    Serve over *database* for as long as this is open: *engine*, or one over *cloud*, by default an unreachable one.

    HTTP has the system's clock, whatever the engine's. *routes* are served in place of the product's; *parts* replace
    fields of `AppDependencies` or of the engine.
    """
    system, limits = SystemClock(), limits or Limits()
    service_health = ProcessHealth(started_at=datetime(2030, 1, 1, tzinfo=UTC))
    service_health.report("database", up=True)
    exchange = HttpExchange(base_url=UNREACHABLE, api_key=SecretStr("key"), timeout_seconds=5, clock=system)
    listener = listen("127.0.0.1", 0)
    async with exchange, aiohttp.ClientSession() as client:
        engine = engine or build_engine(idle_runtime(database, cloud or NovitaCloud(exchange), clock or system))
        ours = {name: parts.pop(name) for name in [field.name for field in fields(Engine)] if name in parts}
        engine = replace(engine, **ours)
        dependencies = replace(
            app_dependencies(engine, service_health=service_health, limits=limits),
            clock=system,
            allowed_origins=("https://ops.example",),
            local_only=local_only,
            **parts,
        )
        app = build_around(routes, dependencies) if routes else build(dependencies, only_watching=only_watching)
        server = HttpServer(app, listener, clock=system, limits=limits)
        task = asyncio.create_task(server.serve())
        try:
            yield Service(
                address=server.address,
                port=listener.getsockname()[1],
                engine=engine,
                parts=dependencies,
                client=client,
            )
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
