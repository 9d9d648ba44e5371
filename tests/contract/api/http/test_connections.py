"""What one connection may cost: bytes, headers, time, unread responses; and requests that can be read in two ways."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest
from support.clock.waiting import until
from support.http.service import Service, serving

from corral.api.http.limits import Limits
from corral.api.http.server import HttpServer, listen
from corral.base.clock import SystemClock
from corral.store.session.database import Database

ALIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
LAST = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
CLEANUP = b"POST /api/jobs/cleanup HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED = CLEANUP + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
BIG = b"GET /schema/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
async def service(database: Database) -> AsyncGenerator[Service]:
    limits = Limits(
        idle_seconds=0.4,
        headers_within_seconds=0.6,
        body_piece_within_seconds=0.6,
        unsent_within_seconds=0.4,
        held_bytes=300_000,
    )
    async with serving(database, limits=limits) as service:
        yield service


def statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def header_of(head: bytes, name: bytes) -> str:
    [value] = [line.partition(b": ")[2] for line in head.splitlines() if line.startswith(name + b": ")]
    return value.decode()


async def test_empty_lines_after_a_response_do_not_keep_a_connection(service: Service) -> None:
    """Clients may send an empty line after a body; a connection on which nothing else comes is still idle."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(ALIVE)
    await reader.readuntil(b"}")
    ended = asyncio.create_task(reader.read())

    async def send_empty_line() -> bool:
        if not ended.done():
            writer.write(b"\r\n")
        return ended.done()

    await until(send_empty_line, what="the end of an idle connection")
    writer.close()
    # The server resets the connection if an empty line arrives while it closes it.
    assert isinstance(ended.exception(), ConnectionResetError) or ended.result() == b""


async def test_an_idle_connection_survives_until_its_time_is_over(service: Service) -> None:
    """An empty line between two requests is tolerated, and the second request is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(ALIVE)
    await reader.readuntil(b"}")
    writer.write(b"\r\n" + LAST)

    assert statuses(await reader.read()) == [200]
    writer.close()


@pytest.mark.parametrize("trailer", [b"x-api-key: wrong", b"host: evil.example", b"origin: https://evil.example"])
async def test_trailers_do_not_become_headers(service: Service, trailer: bytes) -> None:
    """A proxy checks headers and passes trailers on."""
    answer = await service.raw(CHUNKED + trailer + b"\r\n\r\n" + LAST)

    assert statuses(answer) == [200, 200], answer


@pytest.mark.parametrize("trailer", [b"x: y\r\n", b"x" * 5000])
async def test_endless_trailers_are_refused(database: Database, trailer: bytes) -> None:
    """As many small ones, or as one that does not end; long before the memory of all connections is used up."""
    async with serving(database) as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(CHUNKED)
        ended = asyncio.create_task(reader.read())
        pieces = iter([trailer * (20_000 // len(trailer))] * 20)

        async def send_more() -> bool:
            if not ended.done():
                writer.write(next(pieces, b""))
            return ended.done()

        await until(send_more, what="a refusal")
        writer.close()
        answer = b"" if ended.exception() else ended.result()
        assert b"200 OK" not in answer


@pytest.mark.parametrize("header", [b"a:\r\n", b"x-padding: 0123456789\r\n"])
async def test_too_many_headers_are_refused(service: Service, header: bytes) -> None:
    """Each costs far more memory than its bytes on the wire; the request need not even be complete."""
    answer = await service.raw(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n" + header * 101)

    assert statuses(answer) == [400]
    assert b"INVALID_REQUEST" in answer


@pytest.mark.parametrize("request_", [b"garbage\r\n\r\n", LAST[:-2] + b"host: localhost\r\n\r\n"])
async def test_a_refused_request_has_ids_like_every_other(service: Service, request_: bytes) -> None:
    """A user quotes them in a report."""
    first, second = [(await service.raw(request_)).partition(b"\r\n\r\n") for _ in range(2)]

    ids = [header_of(head, b"x-request-id") for head, _, _ in (first, second)]
    assert ids[0] != ids[1]
    assert json.loads(first[2])["error"]["requestId"] == ids[0]
    assert header_of(first[0], b"x-correlation-id") == ids[0]


async def test_a_body_in_another_coding_is_refused(service: Service) -> None:
    """It would be read as JSON although it is compressed."""
    answer = await service.raw(CHUNKED.replace(b": chunked", b": gzip, chunked") + b"\r\n")

    assert statuses(answer) == [400]
    assert b"INVALID_REQUEST" in answer


async def test_as_many_headers_as_proxies_and_browsers_send_are_accepted(service: Service) -> None:
    """Real requests have up to some forty."""
    answer = await service.raw(LAST[:-2] + b"x-padding: 0123456789\r\n" * 90 + b"\r\n")

    assert statuses(answer) == [200]


async def test_large_headers_that_come_in_one_piece_are_refused(service: Service) -> None:
    """Also when their end is already there."""
    try:
        answer = await service.raw(LAST[:-2] + (b"x: " + b"y" * 20_000 + b"\r\n") * 4 + b"\r\n")
    except ConnectionResetError:
        return  # refused while the rest was still being sent

    assert statuses(answer) == [400]


@pytest.mark.parametrize(
    "headers",
    [
        b"host: localhost\r\nhost: localhost\r\n",
        b"host: localhost\r\nhost: evil.example\r\n",
        b"",
        b"host: localhost\r\norigin: http://localhost\r\norigin: https://evil.example\r\n",
        b"host: localhost\r\nauthorization: Bearer a\r\nauthorization: Bearer b\r\n",
        b"host: localhost\r\nx-api-key: a\r\nx-api-key: b\r\n",
    ],
)
async def test_a_header_that_must_be_unique_is_refused_when_it_is_not(service: Service, headers: bytes) -> None:
    """Of two values a proxy may check one and the service use the other."""
    answer = await service.raw(b"GET /health/live HTTP/1.1\r\n" + headers + b"\r\n")

    assert statuses(answer) == [400]
    assert b"INVALID_REQUEST" in answer


@pytest.mark.parametrize("length", [b"0" * 5000 + b"2", b"9" * 5001, b"1" + b"0" * 18])
async def test_a_content_length_of_any_length_is_answered(service: Service, length: bytes) -> None:
    """Python refuses to read numbers of more than 4,300 digits."""
    answer = await service.raw(CLEANUP + b"connection: close\r\ncontent-length: " + length + b"\r\n\r\n{}")

    assert statuses(answer)[0] in {200, 400, 413}


@pytest.mark.parametrize(
    "upgrade",
    [
        b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
        b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: eA==\r\n",
        b"connection: upgrade\r\nupgrade: TLS/1.0\r\n",
    ],
)
async def test_an_offered_upgrade_is_ignored_and_the_body_is_read(service: Service, upgrade: bytes) -> None:
    """Java's HttpClient and `curl --http2` offer h2c with every first request."""
    bad = b'{"olderThanMs": -1}'
    declared = CLEANUP + upgrade + b"content-length: %d\r\n\r\n" % len(bad) + bad
    chunked = CLEANUP + upgrade + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(bad), bad)
    read = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n" + upgrade + b"\r\n"

    assert statuses(await service.raw(declared + read + chunked + LAST)) == [400, 200, 400, 200]


async def test_a_body_that_comes_after_an_offered_upgrade_is_read(service: Service) -> None:
    """Headers and body usually arrive in separate packets."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(CLEANUP + b"connection: upgrade, close\r\nupgrade: h2c\r\ncontent-length: 19\r\n\r\n")
    await writer.drain()
    writer.write(b'{"olderThanMs": -1}')

    answer = await reader.read()
    writer.close()
    assert statuses(answer) == [400]
    assert b"VALIDATION_ERROR" in answer


async def test_connect_is_refused(service: Service) -> None:
    """A tunnel is not offered."""
    assert statuses(await service.raw(b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n")) == [400]


@pytest.mark.parametrize("garbage", [b"\x00\r\n\r\n", b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"])
async def test_garbage_behind_a_request_is_refused_after_its_response(service: Service, garbage: bytes) -> None:
    """A refusal sent first would be taken for the response to the request before it."""
    answer = await service.raw(ALIVE + ALIVE + garbage + ALIVE)

    assert statuses(answer) == [200, 200, 400]


@pytest.mark.parametrize(
    "chunk", [b"g\r\n{}\r\n", b"-1\r\n{}", b"2\r\n{}{}\r\n", b"2\n{}\n", b"ffffffffffffffffff\r\n{}"]
)
async def test_a_bad_chunk_is_refused_once(service: Service, chunk: bytes) -> None:
    """Nothing behind it is read as a request."""
    answer = await service.raw(CLEANUP + b"transfer-encoding: chunked\r\n\r\n" + chunk + ALIVE)

    assert statuses(answer) == [400]


async def test_a_chunked_body_needs_http_1_1(service: Service) -> None:
    """A proxy that speaks HTTP/1.0 does not know where such a body ends."""
    assert statuses(await service.raw(CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n" + ALIVE)) == [400]


async def test_only_so_many_requests_wait_behind_one_another(service: Service) -> None:
    """Thousands of requests fit into one packet, and each needs memory until it is answered."""
    try:
        answer = await service.raw(ALIVE * 3000)
    except ConnectionResetError:
        return

    found = statuses(answer)
    assert found[-1] == 400
    assert len(found) < 200


async def test_large_requests_are_refused_while_others_hold_the_memory(service: Service) -> None:
    """The sum of what all connections hold is limited; a small request is always read."""
    held = [await asyncio.open_connection("127.0.0.1", service.port) for _ in range(10)]
    for _, writer in held:
        writer.write(CLEANUP + b"content-length: 100000\r\n\r\n" + b" " * 60_000)
    ends = [await asyncio.wait_for(reader.read(), 20) for reader, _ in held if not _is_waiting(reader)]
    small = await service.ask("GET", "/health/live")
    ends += [await reader.read() for reader, _ in held if _is_waiting(reader)]
    for _, writer in held:
        writer.close()

    assert small.status == 200
    assert any(end.startswith(b"HTTP/1.1 503 ") and b"TOO_MANY_CONNECTIONS" in end for end in ends)
    assert any(end.startswith(b"HTTP/1.1 408 ") for end in ends)


async def test_headers_count_as_memory_beyond_their_bytes(database: Database) -> None:
    """A hundred empty ones are half a kilobyte on the wire and thirty in memory; a small request is always read."""
    async with serving(database, limits=Limits(held_bytes=300_000)) as service:
        held = [await asyncio.open_connection("127.0.0.1", service.port) for _ in range(20)]
        for _, writer in held:
            writer.write(ALIVE[:-2] + b"a:\r\n" * 99)
        small = await service.ask("GET", "/health/live")
        reader, writer = held[0]
        writer.write(b"b")
        answer = await reader.read()
        for _, writer in held:
            writer.close()

    assert small.status == 200
    assert statuses(answer) == [503]
    assert b"TOO_MANY_CONNECTIONS" in answer


def _is_waiting(reader: asyncio.StreamReader) -> bool:
    return not reader.at_eof()


async def test_a_client_that_never_reads_is_cut_off(database: Database) -> None:
    """The system buffers some megabytes for it; beyond that a response waits."""
    limits = Limits(unsent_within_seconds=0.2, queued_requests=1000)
    async with serving(database, limits=limits) as service:
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            client.sendall(BIG * 400)
            poller = select.poll()
            poller.register(client, select.POLLERR | select.POLLHUP)

            await until(partial(poller.poll, 0), within=20, what="the end of the connection")


async def test_clients_that_never_read_share_a_limit() -> None:
    """A connection with a response beyond it is closed at once; the responses within it are sent in full."""
    size = 16 * 2**20

    async def large(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(size)})

    listener = listen("127.0.0.1", 0)
    server = HttpServer(large, listener, clock=SystemClock(), limits=Limits(unsent_bytes=size))
    serving_task = asyncio.create_task(server.serve())
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(LAST)
    head = await reader.readuntil(b"\r\n\r\n")
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(LAST)
        poller = select.poll()
        poller.register(client, select.POLLERR | select.POLLHUP)
        await until(partial(poller.poll, 0), what="the end of the second connection")
    body = await reader.read()
    writer.close()
    server.stop()
    await serving_task

    assert statuses(head) == [200]
    assert len(body) == size


@pytest.mark.parametrize("requests", [1, 2])
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_stream_ends_when_its_client_leaves_or_never_reads(requests: int, *, leaves: bool) -> None:
    """The application learns that the client disconnected, also when another request waits behind it."""
    reported: list[str] = []

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        async def feed() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b" " * 65_536, "more_body": True})
                await asyncio.sleep(0)  # noqa: TID251  # a turn of the loop, and no time

        assert scope["type"] == "http"
        await receive()
        feeding = asyncio.create_task(feed())
        reported.append((await receive())["type"])
        feeding.cancel()

    listener = listen("127.0.0.1", 0)
    limits = Limits(unsent_within_seconds=0.2)
    server = HttpServer(endless, listener, clock=SystemClock(), limits=limits)
    serving_task = asyncio.create_task(server.serve())
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(ALIVE * requests)
        if leaves:
            await asyncio.to_thread(client.recv, 1)
            client.close()
        await until(lambda: reported == ["http.disconnect"], what="the end of the stream")
    server.stop()
    await serving_task


def test_a_client_that_stops_is_given_up_within_half_a_minute() -> None:
    """Unless configured otherwise: before its request, between requests, or while a response is sent to it."""
    usual = Limits()

    assert max(usual.headers_within_seconds, usual.idle_seconds, usual.unsent_within_seconds) <= 30


async def test_a_client_that_reads_slowly_gets_everything(service: Service) -> None:
    """Only a client that takes nearly nothing is cut off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port, limit=1024)
    writer.write(BIG * 20 + LAST)
    received = bytearray()
    while part := await reader.read(65_536):
        received += part
    writer.close()

    assert statuses(bytes(received)) == [200] * 21
