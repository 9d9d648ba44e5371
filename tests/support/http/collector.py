"""A collector of OpenTelemetry: takes spans by OTLP over HTTP, and decodes them with the official package."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from support.provider.upstream import upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """One span, with ids as text."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    failed: bool
    attributes: dict[str, str | int]
    resource: dict[str, str | int]


@dataclass
class Collector:
    """Remembers every span; answers only while `open` is set."""

    status: int = 200
    spans: list[ReceivedSpan] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Collector]:
        self.open.set()
        async with upstream(self._take) as self.address:
            yield self
            self.open.set()

    async def _take(self, request: web.Request) -> web.Response:
        assert (request.path, request.content_type) == ("/v1/traces", "application/x-protobuf")
        body = await request.read()
        packed = request.headers.get("Content-Encoding") == "gzip"
        self.bodies.append(gzip.decompress(body) if packed else body)
        self.spans += _decoded(self.bodies[-1])
        await self.open.wait()
        return web.Response(status=self.status)


def _decoded(body: bytes) -> list[ReceivedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        ReceivedSpan(
            name=span.name,
            kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            failed=span.status.code == Status.STATUS_CODE_ERROR,
            attributes=_values(span.attributes),
            resource=_values(of_process.resource.attributes),
        )
        for of_process in request.resource_spans
        for scope in of_process.scope_spans
        for span in scope.spans
    ]


def _values(attributes: object) -> dict[str, str | int]:
    pairs: list[object] = list(attributes)  # type: ignore[call-overload]
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in pairs}  # type: ignore[attr-defined]
