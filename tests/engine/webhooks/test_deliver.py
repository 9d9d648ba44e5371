"""One attempt at a delivery, against real receivers."""

from __future__ import annotations

import asyncio
import ssl
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from standardwebhooks import Webhook
from support.clock.clocks import SteppedClock
from support.http.names import Names
from support.http.servers import CERTIFICATE, HttpAnswers, http_answer, serving, unused_port

from corral.base.clock import Clock, SystemClock
from corral.webhooks.deliver import Attempt, Sender
from corral.webhooks.guard import AddressGuard
from corral.webhooks.schedule import AttemptOutcome
from corral.webhooks.sign import signing_key

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"event":"instance.ready","name":"größe"}'.encode()


@asynccontextmanager
async def sending(
    *, allow_private: bool = True, names: Names | None = None, timeout_ms: int = 5000, clock: Clock | None = None
) -> AsyncGenerator[Sender]:
    time = clock or SteppedClock()
    guard = AddressGuard(clock=time, allow_private=allow_private, resolver=names)
    async with Sender.open(clock=time, guard=guard, timeout_ms=timeout_ms, key=signing_key(SECRET)) as sender:
        yield sender


async def answered(answer: bytes) -> Attempt:
    """The outcome of a message to a receiver that sends *answer*."""
    async with serving(HttpAnswers(answer)) as port, sending() as sender:
        return await sender.send(f"http://127.0.0.1:{port}/hook", BODY, message_id="evt_1")


async def test_a_receiver_gets_the_message_signed() -> None:
    """The official library takes it as it came over the wire."""
    receiver = HttpAnswers(http_answer(204))
    async with serving(receiver) as port, sending(clock=SystemClock()) as sender:
        attempt = await sender.send(f"http://127.0.0.1:{port}/hook?key=1", BODY, message_id="evt_1")

    assert (attempt.outcome, attempt.http_status, attempt.error) == (AttemptOutcome.DELIVERED, 204, None)
    assert receiver.heads[0].startswith("POST /hook?key=1 HTTP/1.1")
    assert receiver.header("content-type") == "application/json"
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    signed = {name: receiver.header(name) or "" for name in names}
    assert Webhook(SECRET).verify(receiver.bodies[0], signed)["event"] == "instance.ready"


@pytest.mark.parametrize(
    ("answer", "outcome", "error"),
    [
        (http_answer(200, b"x" * 1_000_000), AttemptOutcome.DELIVERED, None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut", AttemptOutcome.DELIVERED, None),
        (http_answer(410), AttemptOutcome.STOP, "client_error: answered with status 410"),
        (http_answer(404), AttemptOutcome.FINAL, "client_error: answered with status 404"),
        (http_answer(408), AttemptOutcome.RETRY, "timeout: answered with status 408"),
        (http_answer(500), AttemptOutcome.RETRY, "server_error: answered with status 500"),
        (http_answer(304), AttemptOutcome.RETRY, "invalid_response: answered with status 304"),
        (b"", AttemptOutcome.RETRY, "connection_reset: closed the connection before it answered"),
        (
            b"junk\r\n\r\n",
            AttemptOutcome.RETRY,
            "invalid_response: answered something that is not valid HTTP, or its address is",
        ),
    ],
)
async def test_the_status_alone_decides(answer: bytes, outcome: AttemptOutcome, error: str | None) -> None:
    """The body is not read, whatever it is."""
    attempt = await answered(answer)

    assert attempt.outcome is outcome
    assert (attempt.error or "").startswith(error or "")
    assert (attempt.error is None) == (error is None)


@pytest.mark.parametrize(
    ("text", "retry_after"),
    [
        ("120", timedelta(minutes=2)),
        ("0", timedelta(0)),
        ("-1", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("604800", timedelta(hours=1)),
        ("9" * 30, timedelta(hours=1)),
        ("9" * 31, None),
        ("١٢", None),
    ],
)
async def test_a_receiver_may_ask_for_patience(text: str, retry_after: timedelta | None) -> None:
    """Seconds only, an hour at most; nonsense is nothing."""
    assert retry_after == (await answered(http_answer(429, Retry_After=text))).retry_after


async def test_a_redirect_is_not_followed() -> None:
    """It could lead to where webhooks may not go."""
    elsewhere = HttpAnswers(http_answer(200))
    async with serving(elsewhere) as target:
        attempt = await answered(http_answer(307, Location=f"http://127.0.0.1:{target}/"))

    assert (attempt.outcome, attempt.http_status) == (AttemptOutcome.RETRY, 307)
    assert elsewhere.heads == []


async def test_a_receiver_that_hangs_costs_its_time_and_no_more() -> None:
    """The message is tried again later."""

    async def hang(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(hang) as port, sending(timeout_ms=100) as sender:
        attempt = await sender.send(f"http://127.0.0.1:{port}/", BODY, message_id="evt_1")

    assert (attempt.outcome, attempt.http_status, attempt.error) == (
        AttemptOutcome.RETRY,
        None,
        "timeout: did not answer in time",
    )


async def test_a_refusal_names_no_part_of_the_url() -> None:
    """Attempts are listed; the URL may be a secret."""
    async with sending() as sender:
        attempt = await sender.send(f"http://u:secret@127.0.0.1:{unused_port()}/secret", BODY, message_id="evt_1")

    assert (attempt.outcome, attempt.error) == (AttemptOutcome.RETRY, "connection_refused: refused the connection")


async def test_a_body_that_drips_does_not_delay_the_outcome() -> None:
    """The status said it all."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        await asyncio.Event().wait()

    async with serving(drip) as port, sending() as sender:
        assert (
            await sender.send(f"http://127.0.0.1:{port}/", BODY, message_id="evt_1")
        ).outcome is AttemptOutcome.DELIVERED


@pytest.mark.parametrize(
    ("beginning", "more", "outcome"),
    [
        (b"", b"x", AttemptOutcome.RETRY),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: again\r\n" * 1000, AttemptOutcome.RETRY),
        (b"HTTP/1.1 200 OK\r\nX-Header: ", b"x" * 65_536, AttemptOutcome.RETRY),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", AttemptOutcome.RETRY),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536, AttemptOutcome.DELIVERED),
    ],
    ids=["status", "headers", "header", "continue", "body"],
)
async def test_an_answer_without_end_costs_little_time_and_memory(
    beginning: bytes, more: bytes, outcome: AttemptOutcome
) -> None:
    """Every part of an answer can be sent for ever, slowly or fast."""

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(beginning)
        while True:
            writer.write(more)
            await writer.drain()
            if len(more) == 1:
                await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.02)

    tracemalloc.start()
    try:
        async with serving(flood) as port, sending(timeout_ms=300) as sender:
            attempt = await asyncio.wait_for(sender.send(f"http://127.0.0.1:{port}/", BODY, message_id="evt_1"), 5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert attempt.outcome is outcome
    assert peak < 8_000_000


async def test_a_receiver_with_an_untrusted_certificate_gets_no_message() -> None:
    """Events name machines and may carry more."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(CERTIFICATE)
    receiver = HttpAnswers(http_answer(200))
    async with serving(receiver, tls=tls) as port, sending() as sender:
        attempt = await sender.send(f"https://127.0.0.1:{port}/", BODY, message_id="evt_1")

    assert (attempt.outcome, attempt.http_status) == (AttemptOutcome.RETRY, None)
    assert (attempt.error or "").startswith("ssl_error: ")
    assert receiver.heads == []


async def test_a_written_out_inner_address_is_never_connected_to() -> None:
    """Refused for good: the URL will not change."""
    receiver = HttpAnswers(http_answer(200))
    async with serving(receiver) as port, sending(allow_private=False) as sender:
        attempt = await sender.send(f"http://127.0.0.1:{port}/", BODY, message_id="evt_1")

    assert attempt.outcome is AttemptOutcome.FINAL
    assert (attempt.error or "").startswith("address_refused: ")
    assert receiver.heads == []


async def test_a_name_that_changes_its_mind_reaches_nothing_inside() -> None:
    """DNS rebinding: public when checked, loopback when sent to."""
    receiver = HttpAnswers(http_answer(200))
    names = Names(["1.1.1.1"], ["127.0.0.1"])
    guard = AddressGuard(clock=SteppedClock(), allow_private=False, resolver=names)

    async with (
        serving(receiver) as port,
        Sender.open(clock=SteppedClock(), guard=guard, timeout_ms=5000, key=None) as sender,
    ):
        assert await guard.problem(f"http://hooks.example:{port}/") is None
        attempt = await sender.send(f"http://hooks.example:{port}/", BODY, message_id="evt_1")

    assert (attempt.outcome, attempt.http_status) == (AttemptOutcome.RETRY, None)
    assert (attempt.error or "").startswith("address_refused: ")
    assert receiver.heads == []
    assert names.asked == 2


async def test_the_address_that_was_looked_up_is_the_one_connected_to() -> None:
    """Pinned: one look-up, and its answer is used."""
    receiver = HttpAnswers(http_answer(200))
    names = Names(["127.0.0.1"], ["1.1.1.1"])
    async with serving(receiver) as port, sending(names=names) as sender:
        attempt = await sender.send(f"http://hooks.example:{port}/", BODY, message_id="evt_1")

    assert attempt.outcome is AttemptOutcome.DELIVERED
    assert receiver.header("host") == f"hooks.example:{port}"
    assert names.asked == 1
