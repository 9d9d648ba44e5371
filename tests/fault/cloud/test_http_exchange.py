"""One request to a provider that behaves badly, over a real socket."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from pydantic import SecretStr
from support.clock.clocks import SteppedClock
from support.http.servers import unused_port
from support.provider.upstream import Answering, answering, never, upstream

from corral import __version__
from corral.base.log import configure_logging
from corral.cloud.exchange import MEBIBYTE, Call, CallOutcome, FaultError
from corral.cloud.novita import wire
from corral.cloud.novita.faults import error_for
from corral.cloud.novita.http import HttpExchange

KEY = "sk-very-secret-key"
READ = Call(endpoint="clusters", method="GET", path="/v1/clusters", query={"a": "b c"})
CHANGE = Call(endpoint="create", method="POST", path="/v1/gpu/instance/create", body=b'{"envs":"hush-hush"}')


@asynccontextmanager
async def exchange(address: str, *, timeout_seconds: float = 10.0) -> AsyncGenerator[HttpExchange]:
    async with HttpExchange(
        base_url=address, api_key=SecretStr(KEY), timeout_seconds=timeout_seconds, clock=SteppedClock()
    ) as opened:
        yield opened


async def fault_of(answer: Answering, call: Call = READ, *, timeout_seconds: float = 10.0) -> FaultError:
    async with upstream(answer) as address, exchange(address, timeout_seconds=timeout_seconds) as asked:
        with pytest.raises(FaultError) as caught:
            await asked.ask(call, wire.Created)
    return caught.value


async def test_a_request_carries_the_key_and_our_name() -> None:
    """The front refuses clients without a proper User-Agent."""
    answer, requests = answering(lambda: web.json_response({"id": "x", "unknown": 1}))
    async with upstream(answer) as address, exchange(address + "/base/") as asked:
        found = await asked.ask(READ, wire.Created)

    (request,) = requests
    assert found.id == "x"
    assert request.path_qs == "/base/v1/clusters?a=b+c"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["User-Agent"] == f"corral/{__version__}"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"instanceId":"x","state":"toStop"}', b"accepted"])
async def test_the_answer_to_a_change_may_be_anything(body: bytes) -> None:
    """Start, stop and delete have no documented answer."""
    answer, _ = answering(lambda: web.Response(body=body))
    async with upstream(answer) as address, exchange(address) as asked:
        assert isinstance(await asked.ask(CHANGE, wire.Nothing), wire.Nothing)


@pytest.mark.parametrize("body", [b"", b"<html>", b"\x00\xff", b'{"id":', b'[{"unexpected":true}]', b"[" * 100_000])
async def test_garbage_leaves_a_change_in_doubt(body: bytes) -> None:
    """It said 200, so it was likely executed; only a lookup can show that."""
    answer, _ = answering(lambda: web.Response(body=body))
    fault = await fault_of(answer, CHANGE)

    assert (fault.outcome, fault.status, fault.blames_provider) == (CallOutcome.MAY_HAVE_HAPPENED, 200, True)


async def test_a_packed_answer_is_unpacked() -> None:
    """The provider's front packs what is worth it."""

    def packed() -> web.Response:
        response = web.json_response({"id": "x" * 1000})
        response.enable_compression(web.ContentCoding.gzip)
        return response

    answer, _ = answering(packed)
    async with upstream(answer) as address, exchange(address) as asked:
        assert (await asked.ask(READ, wire.Created)).id == "x" * 1000


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=int(request.query["status"]))
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


async def huge(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=int(request.query["status"]))
    response.content_length = 1024 * MEBIBYTE
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


def bomb(mebibytes: int) -> bytes:
    """Gzip of so many MiB of spaces, made of one packed block repeated."""
    block = b" " * MEBIBYTE
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = squeeze.compress(block) + squeeze.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(mebibytes):
        crc = zlib.crc32(block, crc)
    end = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return head + packed * mebibytes + end + struct.pack("<II", crc, mebibytes * MEBIBYTE % 2**32)


async def gzip_bomb(request: web.Request) -> web.StreamResponse:
    headers = {"Content-Encoding": "gzip"}
    return web.Response(status=int(request.query["status"]), body=bomb(512), headers=headers)


@pytest.mark.parametrize("answer", [endless, huge, gzip_bomb])
@pytest.mark.parametrize("status", [200, 500])
async def test_no_answer_takes_more_memory_than_its_limit(answer: Answering, status: int) -> None:
    """Endless, a gibibyte declared, half a gibibyte packed into half a mebibyte: read up to the limit and dropped."""
    call = Call(endpoint="list", method="GET", path="/", query={"status": str(status)}, most_bytes=MEBIBYTE)
    async with upstream(answer) as address, exchange(address) as asked:
        tracemalloc.start()
        try:
            with pytest.raises(FaultError) as caught:
                await asked.ask(call, wire.Instances)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (caught.value.outcome, caught.value.status) == (CallOutcome.MAY_HAVE_HAPPENED, status)
    assert peak < 8 * MEBIBYTE


@pytest.mark.parametrize("call", [READ, CHANGE])
async def test_silence_ends_at_the_timeout_and_is_reported_as_such(call: Call) -> None:
    """A change that timed out may have happened."""
    fault = await fault_of(never, call, timeout_seconds=0.2)

    assert (fault.outcome, fault.timed_out) == (CallOutcome.MAY_HAVE_HAPPENED, True)
    assert error_for(fault, call).code == "NOVITA_API_TIMEOUT"


async def test_a_refused_connection_certainly_did_nothing() -> None:
    """So even a create may be sent again."""
    async with exchange(f"http://127.0.0.1:{unused_port()}") as asked:
        with pytest.raises(FaultError) as caught:
            await asked.ask(CHANGE, wire.Created)

    assert (caught.value.outcome, caught.value.status) == (CallOutcome.DID_NOT_HAPPEN, None)


async def test_a_connection_dropped_after_the_request_leaves_a_change_in_doubt() -> None:
    """The lost reply: the worst thing a provider can do to a create."""

    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    assert (await fault_of(drop, CHANGE)).outcome is CallOutcome.MAY_HAVE_HAPPENED


async def test_an_answer_that_breaks_off_leaves_a_change_in_doubt() -> None:
    """Half a JSON is no answer."""

    async def truncated(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 100
        await response.prepare(request)
        await response.write(b'{"id":"x')
        assert request.transport is not None
        request.transport.close()
        return response

    assert (await fault_of(truncated, CHANGE)).outcome is CallOutcome.MAY_HAVE_HAPPENED


async def test_a_read_is_sent_once_even_on_a_connection_that_breaks() -> None:
    """The library's own repetition would be a call outside the budget."""
    seen: list[str] = []

    async def good_then_broken(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        if len(seen) > 1 and request.transport is not None:
            request.transport.abort()
        return web.json_response({"id": "x"})

    async with upstream(good_then_broken) as address, exchange(address) as asked:
        await asked.ask(READ, wire.Created)
        with pytest.raises(FaultError):
            await asked.ask(READ, wire.Created)

    assert len(seen) == 2


async def test_redirects_are_not_followed() -> None:
    """The key must not travel to wherever an answer points."""
    answer, requests = answering(lambda: web.Response(status=307, headers={"Location": "/elsewhere"}))
    fault = await fault_of(answer, CHANGE)

    assert (fault.status, fault.outcome, len(requests)) == (307, CallOutcome.MAY_HAVE_HAPPENED, 1)


async def test_a_throttled_call_says_how_long_to_wait() -> None:
    """In the provider's error shape and with its header."""
    body = {"code": 429, "reason": "RATE_LIMIT_EXCEEDED", "message": "slow down"}
    answer, _ = answering(lambda: web.json_response(body, status=429, headers={"Retry-After": "7"}))
    fault = await fault_of(answer, CHANGE)

    assert (fault.outcome, fault.retry_after_seconds, fault.reason) == (
        CallOutcome.THROTTLED,
        7.0,
        "RATE_LIMIT_EXCEEDED",
    )


async def test_a_call_is_logged_without_key_or_body() -> None:
    """At debug level, with all there is to know of how it went."""
    out = io.StringIO()
    configure_logging("debug", stream=out)
    body = {"code": 400, "reason": "VALIDATOR_PARAM", "message": f"bad env hush-hush {KEY}"}
    answer, _ = answering(lambda: web.json_response(body, status=400))
    fault = await fault_of(answer, CHANGE)
    lines = [msgspec.json.decode(line, type=dict[str, object]) for line in out.getvalue().splitlines()]

    (line,) = [line for line in lines if line["event"] == "cloud.called"]
    assert (line["endpoint"], line["status"], line["because"]) == ("create", 400, "HTTP 400 VALIDATOR_PARAM")
    assert not [word for word in (KEY, "hush-hush") if word in out.getvalue() + repr(fault) + repr(CHANGE)]
