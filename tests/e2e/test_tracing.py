"""Traces: one for a request and all that follows from it, sent to a collector that may be of any quality."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.clock.waiting import until
from support.http.collector import Collector, ReceivedSpan
from support.http.servers import unused_port
from support.processes.process import Running, quicken, run, serving
from support.provider.upstream import upstream

from corral.base.clock import SystemClock
from corral.base.tracing import tracing
from corral.domain.errors import SettingsError

CREATE_BODY = {"name": "traced", "productName": "RTX 4090 24GB", "templateId": "107672"}
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
SECRETS = ("hook-token", "hf_very_secret", "MODE-value", "Bearer", "corral_")
ON = {"CORRAL_TRACING": "true", "OTEL_BSP_SCHEDULE_DELAY": "100", "CORRAL_WEBHOOK_ALLOW_PRIVATE": "true"}


async def created(corral: Running, **options: Any) -> str:
    answer = await corral.ask("POST", "/api/instances", **options)
    assert answer.status == 201, answer
    return str(answer.json["instanceId"])


async def is_ready(corral: Running, instance_id: str) -> bool:
    return bool((await corral.ask("GET", f"/api/instances/{instance_id}")).json["status"] == "ready")


def one(spans: list[ReceivedSpan]) -> ReceivedSpan:
    assert len(spans) == 1, spans
    return spans[0]


async def test_a_request_and_what_follows_from_it_are_one_trace(short_dir: Path) -> None:
    """From the caller's span to the calls of the provider and the webhooks, without a secret or an address."""
    home = short_dir / "traced"

    async def hook(_request: web.Request) -> web.Response:
        return web.Response(status=204)

    async with Collector().serving() as collector, upstream(hook) as receiver:
        settings = {**ON, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address, "OTEL_SERVICE_NAME": "gpus"}
        async with serving(home / ".corral", **settings) as corral:
            await quicken(home / ".corral")
            body = {
                **CREATE_BODY,
                "webhookUrl": f"{receiver}/hook-token",
                "env": {"MODE": "MODE-value"},
                "secrets": {"HF_TOKEN": "hf_very_secret"},
            }
            instance_id = await created(corral, json=body, headers=TRACEPARENT)
            await until(lambda: is_ready(corral, instance_id), what="a ready instance")
            await corral.ask("GET", "/api/instances?q=very-private", headers={"traceparent": "00-zz-1-01"})
            assert (await corral.ask("GET", "/health")).status == 200
        lines = [json.loads(line) for line in corral.lines if line.startswith("{")]

    ours = [span for span in collector.spans if span.trace == TRACE]
    request = one([span for span in ours if span.kind == "server"])
    assert (request.name, request.parent) == ("POST /api/instances", CALLER)
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/api/instances",
        "http.response.status_code": 201,
        "corral.instance.id": instance_id,
    }
    assert request.resource["service.name"] == "gpus"
    reconciles = {span.id: span for span in ours if span.kind == "consumer"}
    assert {span.parent for span in reconciles.values()} == {request.id}
    assert {span.attributes["corral.instance.id"] for span in reconciles.values()} == {instance_id}
    assert {"create_instance", "monitor_instance"} <= {s.attributes["corral.job.type"] for s in reconciles.values()}

    create = one([span for span in ours if span.name == "novita create"])
    assert create.kind == "client"
    assert reconciles[create.parent].attributes["corral.job.type"] == "create_instance"
    assert create.attributes == {
        "corral.provider.call": "create",
        "http.response.status_code": 200,
        "corral.outcome": "ok",
    }
    calls = [span for span in ours if span.name.startswith("novita ")]
    assert {span.parent for span in calls} <= reconciles.keys() | {request.id}
    sent = [span for span in ours if span.name == "webhook"]
    assert len(sent) == 5
    assert {span.parent for span in sent} <= reconciles.keys() | {request.id}
    assert {(span.kind, span.attributes["corral.outcome"]) for span in sent} == {("client", "delivered")}

    listed = one(collector.named("GET /api/instances"))
    assert (listed.trace != TRACE, listed.parent) == (True, "")
    assert not [span for span in collector.spans if "health" in span.name]
    everything = b"".join(collector.bodies)
    assert not [secret for secret in (*SECRETS, "very-private", receiver) if secret.encode() in everything]
    traced = [line for line in lines if line.get("trace_id") == TRACE]
    assert {line["event"] for line in traced} >= {"instance.phase_changed"}
    assert all(line.get("correlation_id") for line in traced)


@pytest.mark.parametrize("kind", ["hangs", "refuses", "is absent"])
async def test_a_collector_that_fails_delays_nothing(short_dir: Path, kind: str) -> None:
    """Not the request, not the machine, not the end of the process; it is logged once, without the address."""
    home = short_dir / kind.replace(" ", "-")
    async with Collector(status=503).serving() as collector:
        if kind == "hangs":
            collector.open.clear()
        address = collector.address if kind != "is absent" else f"http://127.0.0.1:{unused_port()}"
        settings = {**ON, "OTEL_EXPORTER_OTLP_ENDPOINT": f"{address}/", "OTEL_BSP_MAX_QUEUE_SIZE": "8"}
        settings |= {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
        async with serving(home / ".corral", **settings) as corral:
            await quicken(home / ".corral")
            instance_id = await created(corral, json=CREATE_BODY)
            await until(lambda: is_ready(corral, instance_id), what="a ready instance")
            for _ in range(20):  # more spans than the queue holds
                assert (await corral.ask("GET", "/api/instances")).status == 200
            await until(lambda: _lines(corral, "tracing.unsent"), what="a line about lost spans")
            began = time.monotonic()
            assert await asyncio.wait_for(corral.end(), 20) == 0
            took = time.monotonic() - began

    assert took < 10
    assert len(_lines(corral, "tracing.unsent")) == 1
    assert not [line for line in corral.lines if "/v1/traces" in line or "library.logged" in line]


def _lines(corral: Running, event: str) -> list[str]:
    return [line for line in corral.lines if f'"{event}"' in line]


def test_without_traces_nothing_of_opentelemetry_is_imported() -> None:
    """It would cost every start a fifth of a second, and memory."""
    names = "[name for name in sys.modules if name.split('.')[0] in {'opentelemetry', 'google', 'requests'}]"
    code = f"import sys, corral.app.bootstrap, corral.cli.all_commands; print({names})"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert found.stdout == "[]\n"
    assert not tracing.is_on()
    assert tracing.traceparent() is None
    assert tracing.call_span("x") is tracing.span("x", tracing.SpanKind.SERVER) is tracing.NO_SPAN


def test_traces_without_the_package_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, with what to install."""
    monkeypatch.delitem(sys.modules, "corral.base.tracing.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(SettingsError, match=r"CORRAL_TRACING.*corral\[otel\]"):
        tracing.start("all", SystemClock())


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_BSP_MAX_QUEUE_SIZE", "-1"), ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")]
)
async def test_a_variable_that_opentelemetry_refuses_is_an_error_in_one_sentence(
    tmp_path: Path, name: str, value: str
) -> None:
    """In a process of its own: some variables are read when OpenTelemetry is imported."""
    code, _, errors = await run("serve", "--port", "0", cwd=tmp_path, CORRAL_TRACING="true", **{name: value})
    assert code == 2
    assert "OpenTelemetry does not accept its settings (the variables OTEL_…)" in errors
    assert "Traceback" not in errors
