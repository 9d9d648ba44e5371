"""Logs of machines over HTTP: relayed as safe text, bounded, and from the provider's hosts only."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import Answer, error_of

from corral.api.http.limits import Limits
from corral.base.clock import SystemClock
from corral.domain.access import Access
from corral.domain.observation.sighting import Sighting
from corral.engine.auth.api_keys import create_key, revoke_key
from corral.engine.machine import log_relay
from corral.engine.machine.log_relay import MOST_READINGS
from corral.store.session.database import Database

WATCH_AND_PAUSE = 2
"""Sleepers of one reading that waits for its rate."""
SLACK = 128 * 1024
SAFE = re.compile(rb"[^\x00-\x08\x0b-\x1f\x7f]*")


@pytest.fixture
async def shop(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        yield served


async def running(shop: ServedApiWithProvider) -> str:
    ours, _ = await shop.managed(sighting=Sighting.RUNNING)
    shop.sim.advance(600)
    return ours


async def log_of(shop: ServedApiWithProvider, ours: str, query: str = "") -> Answer:
    return await shop.api.get(f"/api/instances/{ours}/logs{query}")


async def test_both_logs_are_relayed_as_text(shop: ServedApiWithProvider) -> None:
    """Whole or the end of them; uncompressed, not cached, and with one lookup at the provider for both."""
    ours = await running(shop)
    before = shop.sim.calls()["endpoints"].get("get", {}).get("total", 0)
    system = await shop.api.service.ask(
        "GET", f"/api/instances/{ours}/logs?source=system&tail=10000", headers={"accept-encoding": "gzip"}
    )
    instance = await log_of(shop, ours, "?tail=2")
    head = await shop.api.service.ask("HEAD", f"/api/instances/{ours}/logs")

    assert (system.status, system.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert (system.headers["cache-control"], system.headers.get("content-encoding")) == ("no-store", None)
    assert b"Container started" in system.body
    assert len(instance.body.splitlines()) == 2
    assert (head.status, head.body) == (200, b"")
    assert shop.sim.calls()["endpoints"]["get"]["total"] == before + 1
    assert shop.api.service.engine.logs.readings == set()


async def test_a_log_is_followed_while_it_grows(shop: ServedApiWithProvider) -> None:
    """Line by line; when the client hangs up, its place is free at once."""
    ours = await running(shop)
    relay = shop.api.service.engine.logs
    async with shop.api.service.client.get(
        f"{shop.api.service.address}/api/instances/{ours}/logs?follow=true&tail=1"
    ) as response:
        assert await response.content.readline()
        shop.sim.advance(3600)
        assert b"step" in await response.content.readline()
        assert len(relay.readings) == 1
    await until(lambda: not relay.readings, what="the place of the client that hung up")
    assert shop.api.service.parts.service_health.callers_waiting == 0


@pytest.mark.parametrize("kind", ["redirect", "elsewhere", "elsewhere:http://10.0.0.1/x", "status:500"])
async def test_a_log_that_leads_elsewhere_is_not_read(shop: ServedApiWithProvider, kind: str) -> None:
    """Neither by its address nor by a redirect; the error repeats no address."""
    shop.sim.set(log_stream=kind)
    ours = await running(shop)
    error = error_of(await log_of(shop, ours), 502, "LOGS_UNAVAILABLE")

    assert "http" not in error["message"]
    assert shop.api.service.engine.logs.readings == set()


async def test_a_log_that_is_not_there_is_a_conflict(shop: ServedApiWithProvider) -> None:
    """Not created yet, or unknown to its host; what is not an instance is a 404."""
    waiting = (await shop.api.request_create(name="waiting", gpuNum=1)).json["instanceId"]
    shop.sim.set(log_stream="status:404")
    ours = await running(shop)

    error_of(await log_of(shop, waiting), 409, "NO_LOGS_YET")
    error_of(await log_of(shop, ours), 409, "NO_LOGS_YET")
    error_of(await log_of(shop, "inst_nope"), 404, "INSTANCE_NOT_FOUND")
    error_of(await log_of(shop, ours, "?source=kernel"), 400, "VALIDATION_ERROR")
    error_of(await log_of(shop, ours, "?tail=0"), 400, "VALIDATION_ERROR")


async def test_a_hostile_log_is_made_safe(shop: ServedApiWithProvider) -> None:
    """No escape of a terminal, no control character, no byte that is not UTF-8."""
    shop.sim.set(log_stream="garbage")
    answer = await log_of(shop, await running(shop))

    assert answer.status == 200
    assert SAFE.fullmatch(answer.body)
    assert b"owned" not in answer.body
    answer.body.decode("utf-8")


async def test_a_log_that_breaks_off_says_so(shop: ServedApiWithProvider) -> None:
    """What arrived is shown."""
    shop.sim.set(log_stream="cut")
    lines = (await log_of(shop, await running(shop), "?source=system")).body.decode().splitlines()

    assert len(lines) > 1
    assert lines[-1] == "[corral: the provider cut the log off]"


async def test_a_stalled_log_ends(shop: ServedApiWithProvider) -> None:
    """One that is not followed should end by itself."""
    shop.sim.set(log_stream="stall")
    ours = await running(shop)
    clock = shop.api.env.clock
    asked = asyncio.create_task(log_of(shop, ours, "?source=system"))
    await _step_until(clock, asked.done)

    assert (await asked).body.decode().splitlines()[-1] == "[corral: the provider stopped sending]"


async def test_following_ends_after_its_time(shop: ServedApiWithProvider) -> None:
    """With a line that says so."""
    ours = await running(shop)
    asked = asyncio.create_task(log_of(shop, ours, "?follow=true"))
    await _step_until(shop.api.env.clock, asked.done, by=600)

    last = (await asked).body.decode().splitlines()[-1]
    assert last == "[corral: a log is read for at most 30 minutes; ask again to continue]"


async def test_an_endless_log_is_paced_and_ends_after_its_size(shop: ServedApiWithProvider) -> None:
    """After the burst no more is read than the rate allows, and in all no more than the limit."""
    shop.sim.set(log_stream="endless")
    ours, clock = await running(shop), shop.api.env.clock
    reading = await shop.api.service.engine.logs.open(ours, log_relay.LogSource.INSTANCE, tail=1, follow=False)
    received, last = 0, b""
    while not last.startswith(b"[corral"):
        asked = asyncio.ensure_future(reading.next())
        while not asked.done() and clock.sleeping < WATCH_AND_PAUSE:  # noqa: ASYNC110  # its rate ends the wait, or it
            await asyncio.sleep(0)  # noqa: TID251  # one turn of the loop
        if not asked.done():
            assert received <= log_relay.BURST_BYTES + clock.monotonic() * log_relay.BYTES_A_SECOND + SLACK
            clock.advance(4)
        piece = await asked
        received, last = received + len(piece), piece.splitlines()[-1]
    reading.close()

    assert log_relay.MOST_READ_BYTES - SLACK < received < log_relay.MOST_READ_BYTES + SLACK
    assert last == b"[corral: at most 8 MB are read at once; ask again to continue]"


async def test_all_readings_together_have_a_rate(shop: ServedApiWithProvider) -> None:
    """Three bursts at once are one: other requests are served between."""
    shop.sim.set(log_stream="endless")
    ours, clock, relay = await running(shop), shop.api.env.clock, shop.api.service.engine.logs
    readings = [await relay.open(ours, log_relay.LogSource.INSTANCE, tail=1, follow=True) for _ in range(3)]
    received = [0] * 3

    async def drain(place: int) -> None:
        while lines := await readings[place].next():
            received[place] += len(lines)

    draining = [asyncio.create_task(drain(place)) for place in range(3)]
    await until(lambda: clock.sleeping == 3 * WATCH_AND_PAUSE, what="the pause of all")
    for task, reading in zip(draining, readings, strict=True):
        task.cancel()
        reading.close()

    assert log_relay.BURST_BYTES // 2 < sum(received) < 2 * log_relay.BURST_BYTES


async def test_a_hundred_followers_of_an_endless_log_hold_little(shop: ServedApiWithProvider) -> None:
    """They never read. Their memory is bounded, others are served, and one more is refused until a place is free."""
    shop.sim.set(log_stream="endless")
    ours = await running(shop)
    relay, port = shop.api.service.engine.logs, shop.api.service.port
    before = _resident_bytes()
    clients = [_follower(port, ours) for _ in range(MOST_READINGS)]
    await until(lambda: len(relay.readings) == MOST_READINGS, what="every follower's place")
    refused = await log_of(shop, ours)
    health = await shop.api.get("/health")
    listed = await shop.api.get("/api/instances")
    grown = _resident_bytes() - before
    clients.pop().close()
    await until(lambda: len(relay.readings) < MOST_READINGS, what="the place of the one that left")
    for client in clients:
        client.close()
    await until(lambda: not relay.readings, what="the places of the others")

    error_of(refused, 429, "TOO_MANY_FOLLOWERS")
    assert (health.status, listed.status) == (200, 200)
    assert grown < 150 * 2**20  # with the simulator's and the client's part


async def test_a_follower_that_never_reads_is_cut_off(database: Database) -> None:
    """Its place is free long before the time of following is over."""
    async with staged(database, limits=Limits(unsent_within_seconds=0.2)) as shop:
        shop.sim.set(log_stream="endless")
        ours = await running(shop)
        relay, steps = shop.api.service.engine.logs, iter(range(20))
        client = _follower(shop.api.service.port, ours)
        await until(lambda: relay.readings, what="its place")

        def is_gone() -> bool:  # the system holds some megabytes for it first
            if next(steps, None) is not None:
                shop.api.env.clock.advance(16)
            return not relay.readings

        await until(is_gone, what="its end")
        client.close()


async def test_a_stop_and_a_revoked_key_end_followers(database: Database) -> None:
    """The last line says why."""
    key, text = await create_key(database, name="ci", access=Access.OPERATOR, now=SystemClock().now())
    async with staged(database) as shop:
        ours = await running(shop)
        address = f"/api/instances/{ours}/logs?follow=true&tail=1"
        revoked = asyncio.create_task(shop.api.service.ask("GET", address, headers={"X-API-Key": text}))
        relay = shop.api.service.engine.logs
        await until(lambda: len(relay.readings) == 1, what="the first follower")
        await revoke_key(database, named=key.id, now=SystemClock().now())
        await _step_until(shop.api.env.clock, revoked.done, by=15)
        stopped = asyncio.create_task(shop.api.service.ask("GET", address))
        await until(lambda: len(relay.readings) == 1, what="the second follower")
        relay.stop()
        late = await shop.api.service.ask("GET", address)

        assert (await revoked).body.endswith(b"[corral: the access of the caller ended, or cannot be checked]\n")
        assert (await stopped).body.endswith(b"[corral: this Corral is stopping; ask again to continue]\n")
        assert late.body.endswith(b"[corral: this Corral is stopping; ask again to continue]\n")
        assert relay.readings == set()


def _follower(port: int, instance_id: str) -> socket.socket:
    """A client that asks for a log and never reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that the system takes little of it
    client.connect(("127.0.0.1", port))
    request = f"GET /api/instances/{instance_id}/logs?follow=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    client.sendall(request.encode())
    return client


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def _step_until(clock: SteppedClock, is_done: Callable[[], bool], *, by: float = 5) -> None:
    def stepped() -> bool:
        clock.advance(by)
        return is_done()

    await until(stepped, what="the end, while time is stepped")


async def test_the_progress_of_a_pull_is_read_from_the_system_log(shop: ServedApiWithProvider) -> None:
    """Each log is read once in two seconds, however many ask."""
    shop.sim.set(pull_seconds=60)
    ours, _ = await shop.managed()
    path, clock = f"/api/instances/{ours}/image-pull", shop.api.env.clock
    shop.sim.advance(32)
    early = (await shop.api.get(path)).json
    shop.sim.advance(10)
    same = (await shop.api.get(path)).json
    clock.advance(2)
    later = (await shop.api.get(path)).json
    shop.sim.advance(3600)
    clock.advance(2)
    ended = (await shop.api.get(path)).json

    assert early["pulling"]
    assert 0 < early["bytesDone"] < early["bytesTotal"]
    assert 0 < early["percent"] < 99
    assert "Downloading" in early["line"]
    assert same == early
    assert later["bytesDone"] > early["bytesDone"]
    assert (ended["pulling"], ended["percent"], ended["layersComplete"]) == (False, 100.0, ended["layers"])
    waiting = (await shop.api.request_create(name="waiting", gpuNum=1)).json["instanceId"]
    error_of(await shop.api.get(f"/api/instances/{waiting}/image-pull"), 409, "NO_LOGS_YET")
