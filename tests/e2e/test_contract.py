"""A client that knows the contract and nothing else: its words are those of the specification."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from support.clock.waiting import until
from support.processes.process import Running, quicken, serving

from novitasim.testing import Simulated, start_simulator

CREATE_BODY = {"name": "contract", "productName": "RTX 4090 24GB", "templateId": "107672"}
READS = (
    "/api/instances",
    "/api/instances/{id}",
    "/api/instances/comprehensive",
    "/api/instances/{id}/operations",
    "/api/instances/{id}/events",
    "/api/operations/{operation}",
    "/api/events",
    "/api/jobs",
    "/api/jobs/stats",
    "/api/cache/stats",
    "/api/products?name=RTX%204090%2024GB",
    "/api/templates/107672",
    "/api/metrics",
    "/api/orphans",
    "/api/webhooks/deliveries",
    "/health",
)


async def shown(corral: Running, instance_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await corral.ask("GET", f"/api/instances/{instance_id}")).json
    return found


async def wait_for(corral: Running, instance_id: str, status: str) -> dict[str, Any]:
    async def is_there() -> bool:
        return bool((await shown(corral, instance_id))["status"] == status)

    await until(is_there, within=60, what=status)
    return await shown(corral, instance_id)


async def test_create_wait_stop_start_by_name_restart_delete(short_dir: Path) -> None:
    """The whole life, by the routes and words of the contract."""
    data_dir = short_dir / "contract" / ".corral"
    async with serving(data_dir) as corral:
        await quicken(data_dir)
        made = await corral.ask("POST", "/api/instances", json=CREATE_BODY)
        assert (made.status, made.json["status"]) == (201, "creating")
        instance_id = made.json["instanceId"]
        first = await wait_for(corral, instance_id, "ready")
        assert first["connectionDetails"]["ssh"]
        for verb, path, body, end in (
            ("stop", f"/api/instances/{instance_id}/stop", None, "exited"),
            ("start", "/api/instances/start", {"instanceName": "contract"}, "ready"),
            ("restart", f"/api/instances/{first['novitaInstanceId']}/restart", None, "ready"),
            ("delete", "/api/instances/delete", {"instanceName": "contract"}, "terminated"),
        ):
            asked = await corral.ask("POST", path, json=body)
            assert asked.status == 202, (verb, asked)
            assert {"instanceId", "novitaInstanceId", "status", "message", "operationId"} <= set(asked.json)
            await wait_for(corral, instance_id, end)
            operation = (await corral.ask("GET", f"/api/operations/{asked.json['operationId']}")).json
            assert (operation["kind"], operation["status"]) == (verb, "completed")
        events = (await corral.ask("GET", f"/api/instances/{instance_id}/events")).json["events"]
        assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
        assert events[-1]["event"] == "instance.terminated"


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator(clock="real", boot_seconds=0.1, pull_seconds=0.1) as sim:
        yield sim


async def test_with_the_provider_gone_silent_every_read_is_answered_and_says_so(
    short_dir: Path, sim: Simulated
) -> None:
    """Known data is served, marked as old; no request waits for a provider that does not answer."""
    settings = {
        "NOVITA_API_BASE_URL": sim.base_url,
        "NOVITA_API_KEY": "key",
        "INSTANCE_POLL_INTERVAL": "1",
        "COMPREHENSIVE_CACHE_TTL": "1",
    }
    async with serving(short_dir / "silent" / ".corral", **settings) as corral:
        made = (await corral.ask("POST", "/api/instances", json=CREATE_BODY)).json
        names = {"id": made["instanceId"], "operation": made["operationId"]}
        await wait_for(corral, made["instanceId"], "ready")
        for path in READS:
            assert (await corral.ask("GET", path.format(**names))).status == 200, path
        sim.fault("hang", count=None)

        async def is_stale() -> bool:
            return bool((await shown(corral, made["instanceId"]))["stale"])

        await until(is_stale, within=60, what="being stale")
        slowest = 0.0
        for path in READS:
            began = time.monotonic()
            answer = await corral.ask("GET", path.format(**names))
            slowest = max(slowest, time.monotonic() - began)
            assert answer.status in ({200, 503} if path == "/health" else {200}), (path, answer)
        merged = (await corral.ask("GET", "/api/instances/comprehensive?includeNovitaOnly=false")).json
        print(f"slowest read with a silent provider: {slowest * 1000:.0f} ms")  # noqa: T201  # shown with -s

        assert merged["degraded"] is True
        assert (await shown(corral, made["instanceId"]))["status"] == "ready"
