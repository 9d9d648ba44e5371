"""Spans to a collector that answers badly, which needs no service around it."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from structlog.testing import capture_logs
from support.clock.waiting import until
from support.provider.upstream import Answering, upstream

from corral.base.clock import SystemClock
from corral.base.tracing.otel import OtelTracing
from corral.base.tracing.tracing import SpanKind


async def reported(
    answer: Answering, monkeypatch: pytest.MonkeyPatch, done: asyncio.Event, caller: str | None = None
) -> list[str]:
    """Send a span below *caller* to a collector with *answer* until *done*; returns the events that were logged."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    with capture_logs() as logged:
        async with upstream(answer) as address:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
            traces = OtelTracing.open("all", SystemClock())
            with traces.span("one", SpanKind.SERVER, caller):
                pass
            await until(done.is_set, within=20, what="the end of the exchange")
            await traces.close()
    return [str(line["event"]) for line in logged]


async def test_an_endless_response_of_a_collector_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be kept in memory, however long it is."""
    ended, sent = asyncio.Event(), 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while sent < 64 * 2**20:
                await response.write(bytes(2**16))
                sent += 2**16
        finally:
            ended.set()
        return response

    assert await reported(endless, monkeypatch, ended) == []
    assert sent < 64 * 2**20


async def test_a_collector_that_redirects_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK counts a redirect as success, so that all spans would be lost without a word; it is not followed."""
    asked, paths = asyncio.Event(), list[str]()

    async def redirect(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        asked.set()
        raise web.HTTPTemporaryRedirect(location="/elsewhere")

    assert await reported(redirect, monkeypatch, asked) == ["tracing.unsent"]
    assert paths == ["/v1/traces"]


async def test_a_bad_traceparent_of_a_caller_is_not_reported_as_lost_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any caller can send one, and would use up the one report of a minute."""
    asked = asyncio.Event()

    async def accept(_request: web.Request) -> web.StreamResponse:
        asked.set()
        return web.Response()

    assert await reported(accept, monkeypatch, asked, caller="0" * 7000) == []
