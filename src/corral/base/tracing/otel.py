"""
Spans by the SDK of OpenTelemetry, sent by OTLP over HTTP. Imported only when traces are on.

The SDK reads its own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`, …). A thread of its own sends
batches from a queue of limited length; a collector that is down, slow or refuses costs spans and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self

import requests
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from corral import __version__
from corral.base.clock import Clock
from corral.base.log import log
from corral.base.tracing.tracing import Span, SpanKind

LAST_SEND_SECONDS: Final = 2.0
"""How long the end of the process waits for the last spans. Longer, and a collector that hangs delays every restart;
shorter, and the spans of the last seconds are lost more often."""
REPORT_SECONDS: Final = 60.0
"""How often it is logged that spans could not be sent; the SDK says it for every attempt."""

_KINDS: Final = {
    SpanKind.SERVER: trace.SpanKind.SERVER,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
}
_NAMES: Final = {
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
    "instance_id": "corral.instance.id",
    "operation": "corral.operation",
    "job_type": "corral.job.type",
    "call": "corral.provider.call",
    "event": "corral.event",
    "outcome": "corral.outcome",
}
"""Our attributes by the names of OpenTelemetry's conventions, where there is one. No other is ever sent."""


class _OtelSpan:
    """A span that is sent."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token: Any = None

    def __enter__(self) -> Self:
        self._token = contexts.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, *error: object) -> None:
        contexts.detach(self._token)
        self._span.end()

    def rename(self, name: str) -> None:
        """See `Span`."""
        self._span.update_name(name)

    def note(self, *, failed: bool = False, **attributes: str | int | None) -> None:
        """See `Span`."""
        self._span.set_attributes({_NAMES[name]: value for name, value in attributes.items() if value is not None})
        if failed:
            self._span.set_status(trace.StatusCode.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelTracing:
    """Traces of one process. Made by `open`."""

    provider: TracerProvider
    tracer: trace.Tracer

    @classmethod
    def open(cls, role: str, clock: Clock) -> Self:
        """Begin to send spans to the collector that the variables of OpenTelemetry name."""
        logger = logging.getLogger("opentelemetry")
        logger.handlers[:] = [_Failures(clock)]
        logger.propagate = False
        ours = Resource({"service.name": "corral", "service.version": __version__, "corral.role": role})
        provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(session=_CollectorSession())))
        return cls(provider=provider, tracer=provider.get_tracer("corral", __version__))

    def span(self, name: str, kind: SpanKind, traceparent: str | None) -> Span:
        """See `Tracing`."""
        parent = None if traceparent is None else _context(traceparent)
        return _OtelSpan(self.tracer.start_span(name, context=parent, kind=_KINDS[kind]))

    def current(self) -> Span | None:
        """See `Tracing`."""
        found = trace.get_current_span()
        return _OtelSpan(found) if found.get_span_context().is_valid else None

    def traceparent(self) -> str | None:
        """See `Tracing`."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier.get("traceparent")

    @contextmanager
    def under(self, traceparent: str | None) -> Generator[None]:
        """See `Tracing`."""
        token = contexts.attach(Context() if traceparent is None else _context(traceparent))
        try:
            yield
        finally:
            contexts.detach(token)

    async def close(self) -> None:
        """See `Tracing`; a thread that hangs ends with the process."""
        last = threading.Thread(target=self.provider.shutdown, daemon=True)
        last.start()
        await asyncio.to_thread(last.join, LAST_SEND_SECONDS)


_W3C: Final = TraceContextTextMapPropagator()


def _context(traceparent: str) -> Context:
    """The context of *traceparent*; without a span if it is not valid."""
    return _W3C.extract({"traceparent": traceparent}, context=Context())


class _CollectorSession(requests.Session):
    """
    The connection to the collector, of whose responses only the status counts.

    The body is not read: it may be endless. A redirect is not followed, and is an error, because the SDK counts it as
    success, and all spans would be lost without a report.
    """

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send *request*; raises RequestException if the response is a redirect."""
        response = super().send(request, **kwargs | {"stream": True})
        response.close()
        if HTTPStatus.MULTIPLE_CHOICES <= response.status_code < HTTPStatus.BAD_REQUEST:
            raise requests.RequestException("the collector redirects")
        return response


class _Failures(logging.Handler):
    """Logs now and then that spans were lost, without the SDK's words, which name the address of the collector."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._next = clock.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Log the first of each minute; what a caller's header is refused for loses no span."""
        now = self._clock.monotonic()
        if now >= self._next and not record.name.startswith("opentelemetry.trace.propagation"):
            self._next = now + REPORT_SECONDS
            log.warning("tracing.unsent", reported_by=record.name)
