"""A webhook receiver that never answers must not delay other instances or other receivers."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from support.clock.waiting import until
from support.http.servers import serving as listening
from support.processes.process import Running, quicken, serving
from support.provider.upstream import upstream

REQUEST = {"productName": "RTX 4090 24GB", "templateId": "107672"}
HANGING = 20
HANGS = {"WEBHOOK_TIMEOUT": "300000"}
"""No attempt at the hanging receiver ends during the test: what waits for one does not happen in time."""


async def _create(corral: Running, name: str, url: str) -> str:
    answer = await corral.ask("POST", "/api/instances", json={**REQUEST, "name": name, "webhookUrl": url})
    assert answer.status == 201, answer
    return str(answer.json["instanceId"])


async def test_a_hanging_receiver_delays_no_other_instance_and_no_other_receiver(short_dir: Path) -> None:
    """Create, ready and delete of another instance, and its events, take as long as without the hanging receiver."""
    received: list[dict[str, Any]] = []

    async def hang(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def receive(request: web.Request) -> web.Response:
        received.append(msgspec.json.decode(await request.read()))
        return web.Response(status=204)

    def has(event: str) -> bool:
        return any(message["event"] == f"instance.{event}" for message in received)

    data_dir = short_dir / "hanging" / ".corral"
    settings = {"MAX_CONCURRENT_JOBS": "2", "CORRAL_WEBHOOK_ALLOW_PRIVATE": "true", **HANGS}
    async with listening(hang) as port, upstream(receive) as good, serving(data_dir, **settings) as corral:
        await quicken(data_dir)
        for number in range(HANGING):
            await _create(corral, f"hanging-{number}", f"http://127.0.0.1:{port}/")
        await until(lambda: _attempted(corral), what="the first attempt at the hanging receiver")

        other = await _create(corral, "other", f"{good}/hook")
        await until(lambda: has("ready"), what="the event that the other instance is ready")
        assert (await corral.ask("DELETE", f"/api/instances/{other}")).status == 202
        await until(lambda: has("terminated"), what="the event that it is deleted")
        assert await _attempted(corral), "the hanging receiver still hangs"
        await corral.end(signal.SIGKILL)  # asked to end, it would wait for the receiver

    assert [message["seq"] for message in received] == sorted(message["seq"] for message in received)


async def _attempted(corral: Running) -> bool:
    """Whether a job that sends is running; its attempt is recorded only when it ends."""
    jobs = (await corral.ask("GET", "/api/jobs?type=send_webhook&status=processing")).json["jobs"]
    return bool(jobs)
