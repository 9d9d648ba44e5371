"""Hostile or broken callers: each gets the usual error shape, and no other caller is affected."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote, quote_from_bytes

import msgspec
import pytest
import structlog
from support.clock.waiting import until
from support.http.served_api import CREATE_BODY, ServedApi
from support.http.service import Answer, Service, serving

from corral.api.http.limits import Limits
from corral.store.session.database import Database

JSON = {"content-type": "application/json"}
HEAD = b"POST /api/jobs/cleanup HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
ODD_TEXTS = [
    "\0", "a\0b", "\u202egnp.exe", "\ufeff", "\U0001f600" * 20, "\u0000\u0001\u001f\u007f", "\r\nX-Evil: 1",
    "\ud7ff\ue000", "A\u0301\u0327" * 10, "' OR 1=1 --", "../../../etc/passwd", "%00%ff", "${jndi:ldap://x}", "{{7*7}}",
    "x" * 70_000, "",
]  # fmt: skip
ODD_BODIES = [
    b'{"name":"\\ud800"}',
    b'{"name":"\xff\xfe"}',
    b'{"name":"a","name":"b","gpuNum":1,"gpuNum":99}',
    b'{"name":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}",
    b'{"gpuNum":' + b"9" * 10_000 + b"}",
    b'{"gpuNum":1e400,"rootfsSize":-1e400,"maxPrice":NaN}',
    b'{"gpuNum":-0.0,"maxPrice":5e-324,"rootfsSize":99999999999999999999}',
    b'{"instanceName":["a"],"healthCheckConfig":[],"webhookUrl":{},"targetPort":"\\u0000"}',
    b'{"":' + b"[" * 900 + b"]" * 900 + b"}",
    b'"text"',
    b"[]",
    b"null",
    b"0",
    b"\xef\xbb\xbf{}",
    '{"name":"ä"}'.encode("utf-16"),
    b"{}{}",
    b"{" + b'"k":0,' * 50_000 + b'"z":0}',
]


@pytest.fixture
async def hasty(database: Database) -> AsyncGenerator[Service]:
    """A service with little patience."""
    limits = Limits(headers_within_seconds=0.5, body_piece_within_seconds=0.5, body_within_seconds=1.0)
    async with serving(database, limits=limits) as service:
        yield service


async def test_one_connection_too_many_is_refused_until_another_ends(database: Database) -> None:
    """Open connections are served; refused ones get the reason; and it is logged once."""
    async with serving(database, limits=Limits(connections=2)) as service, AsyncExitStack() as stack:

        async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            line = await asyncio.open_connection("127.0.0.1", service.port)
            stack.callback(line[1].close)
            return line

        first, second = await connected(), await connected()
        with structlog.testing.capture_logs() as reported:
            refusals = [await (await connected())[0].read() for _ in range(3)]
        assert all(refusal.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") for refusal in refusals)
        assert all(b'"TOO_MANY_CONNECTIONS"' in refusal for refusal in refusals)
        assert [line["event"] for line in reported] == ["server.full"]

        first[1].close()
        request = b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"

        async def is_let_in() -> bool:
            reader, writer = await connected()
            with contextlib.suppress(ConnectionError):
                writer.write(request)
                return (await reader.read()).startswith(b"HTTP/1.1 200 ")
            return False

        await until(is_let_in, what="a free place")
        second[1].write(request)
        assert (await second[0].read()).startswith(b"HTTP/1.1 200 ")


def refused_or_done(answer: Answer, what: object = "") -> None:
    """No fault of ours, and every refusal in the one shape."""
    assert answer.status < 500, (what, answer)
    if answer.status >= 400:
        error = answer.json["error"]
        assert error["code"]
        assert error["requestId"] == answer.headers["x-request-id"]


async def _operations(api: ServedApi) -> list[tuple[str, str]]:
    document = (await api.get("/schema/openapi.json")).json
    return [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]


async def test_odd_text_in_every_path_and_query_is_answered(api: ServedApi) -> None:
    """Percent-encoded as it should be, and as bytes that are no UTF-8."""
    texts = [quote(text, safe="") for text in ODD_TEXTS if len(text) < 1000] + [quote_from_bytes(b"\xff\xc0\x80")]
    for method, path in await _operations(api):
        if ("{" not in path and method != "GET") or path.endswith(("/comprehensive", "/adopt")):
            continue  # the stub provider here shows no instances
        for text in texts:
            filled = "/".join(text or "%20" if part.startswith("{") else part for part in path.split("/"))
            query = (
                f"?status={text}&name={text}&instanceId={text}&limit={text}&after={text}&region={text}&{text}={text}"
            )
            refused_or_done(await _raw_ask(api.service, method, filled + query), (method, filled, query))


async def _raw_ask(service: Service, method: str, target: str) -> Answer:
    """Ask as it is written: client libraries would tidy it up."""
    request = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    head, _, body = (await service.raw(request.encode("latin-1"))).partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.split(": ", 1) for line in lines]
    return Answer(status=int(status.split()[1]), headers={name.lower(): value for name, value in pairs}, body=body)


async def test_odd_text_in_every_field_is_answered(api: ServedApi) -> None:
    """All bad fields at once; and what is accepted can be read again."""
    check = {"path": "/", "targetPort": 80}
    for text in ODD_TEXTS:
        fields: list[dict[str, Any]] = [
            {name: text} for name in (*CREATE_BODY, "region", "billingMode", "webhookUrl", "maxPrice")
        ]
        fields += [{"regions": [text]}, {"healthCheck": text}, {"healthCheck": {**check, "path": text}}, {text: text}]
        for field in fields:
            answer = await api.request_create(**field)
            refused_or_done(answer)
            if answer.status == 201:
                refused_or_done(await api.get(f"/api/instances/{answer.json['instanceId']}"))
    refused_or_done(await api.get("/api/instances?limit=500"))


async def test_odd_bodies_of_every_route_are_answered(api: ServedApi) -> None:
    """Deep, doubled, huge, not UTF-8, or not an object."""
    made = (await api.request_create()).json["instanceId"]
    routes = [(method, path) for method, path in await _operations(api) if method != "GET"]
    for method, path in routes:
        filled = "/".join(made if part.startswith("{") else part for part in path.split("/"))
        for body in ODD_BODIES:
            refused_or_done(await api.service.ask(method, filled, data=body, headers=JSON), (method, path, body[:60]))


@pytest.mark.parametrize(
    "media_type",
    [
        "",
        "text/plain",
        "application/json; charset=utf-16",
        "application/jsonx",
        "multipart/form-data",
        "\u00e4",
        ";",
        "a/b/c",
    ],
)
async def test_a_body_of_another_kind_does_nothing(api: ServedApi, media_type: str) -> None:
    """JSON is UTF-8, whatever a charset claims; anything else is refused before it is read."""
    body = msgspec.json.encode(CREATE_BODY)
    answer = await api.service.ask("POST", "/api/instances", data=body, headers={"content-type": media_type})

    refused_or_done(answer)
    assert answer.status == (201 if media_type.startswith("application/json;") else 415)


@pytest.mark.parametrize(
    "headers",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 2\r\n",
        b"content-length: 2\r\ncontent-length: 40\r\n",
        b"content-length: 2, 40\r\n",
        b"content-length: +2\r\n",
        b"content-length: -2\r\n",
        b"content-length: 99999999999999999999999999\r\n",
        b"content-length: 0x2\r\n",
        b"transfer-encoding: xchunked\r\n",
        b"transfer-encoding : chunked\r\n",
        b"transfer-encoding: chunked, identity\r\n",
        b"transfer-encoding:\x0bchunked\r\n",
        b"x: y\r\n content-length: 2\r\n",
        b"x: a\x00b\r\n",
        b"x\r\n",
        b": empty\r\n",
    ],
)
async def test_a_request_that_can_be_read_in_two_ways_is_refused_whole(hasty: Service, headers: bytes) -> None:
    """A proxy before us may read it the other way, and what is smuggled behind it must not be answered."""
    smuggled = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
    answer = await hasty.raw(HEAD + headers + b"\r\n" + b"0\r\n\r\n" + smuggled)

    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ", b"HTTP/1.1 408 "))
    assert b'{"error":{"code":' in answer


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"\x00" * 100_000,
        b"GET /" + b"a" * 200_000,
        b"A" * 5000 + b" / HTTP/1.1\r\n\r\n",
    ],
)
async def test_garbage_on_the_socket_ends_that_connection_only(hasty: Service, garbage: bytes) -> None:
    """Bytes that are no HTTP get a 400 where possible; the next caller is served."""
    try:
        answer = await hasty.raw(garbage)
    except ConnectionResetError:
        answer = b""  # refused while we still wrote

    assert not answer.startswith(b"HTTP/1.1 5")
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert (await hasty.ask("GET", "/health/live")).status == 200


async def test_requests_in_one_piece_are_answered_one_by_one(hasty: Service) -> None:
    """Pipelined, in their order, and not all at once."""
    paths = [f"/nowhere/{n}" for n in range(50)]
    requests = "".join(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nx-request-id: r{path}\r\n\r\n" for path in paths)
    answer = await hasty.raw(
        requests.encode() + b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )

    reported = [
        line.split(b": ")[1].decode() for line in answer.split(b"\r\n") if line.lower().startswith(b"x-request-id")
    ]
    assert reported[:-1] == [f"r{path}" for path in paths]
    assert len(reported) == 51


async def test_a_body_that_drips_is_given_up(hasty: Service) -> None:
    """Each piece in time, but never an end: a body has a time as a whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", hasty.port)
    writer.write(HEAD + b"content-length: 100000\r\n\r\n")
    answered = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))  # no further: a late drip resets it

    async def drip() -> bool:
        if not answered.done():
            writer.write(b" ")
        return answered.done()

    await until(drip, what="an answer")
    writer.close()

    assert answered.result().startswith(b"HTTP/1.1 408 ")


async def test_slow_callers_delay_no_other_caller(hasty: Service) -> None:
    """Three hundred that send half a request and stop; others are served meanwhile, and these are hung up on."""
    half = [b"GET /health HTTP/1.1\r\nhost: local", HEAD, HEAD + b"content-length: 10\r\n\r\n{"]
    slow = [await asyncio.open_connection("127.0.0.1", hasty.port) for _ in range(300)]
    for number, (_, writer) in enumerate(slow):
        writer.write(half[number % 3])
    served = [(await hasty.ask("GET", "/api/jobs/stats")).status for _ in range(20)]
    ends = await asyncio.gather(*(reader.read() for reader, _ in slow))
    for _, writer in slow:
        writer.close()

    assert served == [200] * 20
    assert {end[:13] for end in ends} == {b"", b"HTTP/1.1 408 "}
    await until(lambda: hasty.parts.service_health.callers_waiting == 0)
