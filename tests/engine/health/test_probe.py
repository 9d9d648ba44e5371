"""The prober against real servers, well-behaved and hostile."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
import tracemalloc
from collections.abc import AsyncGenerator

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.http.names import Names
from support.http.servers import CERTIFICATE, HttpAnswers, http_answer, serving, unused_port

from corral.domain.health.checks import HealthCheckSpec, HealthReport, OverallHealth
from corral.domain.health.network_faults import FaultCategory
from corral.domain.observation.sighting import Endpoint
from corral.domain.placement.catalog import PortKind
from corral.health.probe import Prober
from corral.outbound.policy import AddressPolicy

SPEC = HealthCheckSpec(timeout_ms=5000, retry_attempts=2, retry_delay_ms=1000, max_wait_ms=60_000)
IMPATIENT = HealthCheckSpec(timeout_ms=100, retry_attempts=0)
WELCOME = http_answer(200, b"<title>Welcome</title>")
GATEWAY = http_answer(502, b"<title>502 Bad Gateway</title>")


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def prober(clock: SteppedClock) -> AsyncGenerator[Prober]:
    async with Prober.open(clock=clock, policy=AddressPolicy(allow_private=False, allow_loopback=True)) as prober:
        yield prober


def http(port: int, *, scheme: str = "http", path: str = "") -> Endpoint:
    return Endpoint(port=8080, kind=PortKind.HTTP, address=f"{scheme}://127.0.0.1:{port}{path}")


def tcp(port: int) -> Endpoint:
    return Endpoint(port=22, kind=PortKind.TCP, address=f"127.0.0.1:{port}")


def category(report: HealthReport) -> FaultCategory | None:
    (seen,) = report.endpoints
    return seen.error.category if seen.error else None


async def test_an_application_that_answers_is_healthy(prober: Prober, clock: SteppedClock) -> None:
    """The report says all the API shows."""
    answers = HttpAnswers(WELCOME)
    async with serving(answers) as port:
        report = await prober.check([http(port, path="/app")], HealthCheckSpec(path="/health"))

    (seen,) = report.endpoints
    assert (report.overall, report.checks, report.first_checked_at) == (OverallHealth.HEALTHY, 1, clock.now())
    assert (seen.port, seen.status, seen.error, seen.last_checked_at) == (8080, "healthy", None, clock.now())
    assert answers.heads[0].startswith("GET /app/health HTTP/1.1")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (http_answer(401, b"who?"), None),
        (http_answer(403, b"<title>Login</title><form></form>"), None),
        (http_answer(204), None),
        (http_answer(404, b"not here"), FaultCategory.CLIENT_ERROR),
        (http_answer(500, b"oops"), FaultCategory.SERVER_ERROR),
        (http_answer(503), FaultCategory.SERVICE_UNAVAILABLE),
        (http_answer(200, b"<h1>502 Bad Gateway</h1>"), FaultCategory.BAD_GATEWAY),
        (http_answer(200, gzip.compress(b"<h1>502 Bad Gateway</h1>"), Content_Encoding="gzip"), "bad_gateway"),
        (http_answer(200, b"not gzip", Content_Encoding="gzip"), None),
        (b"SSH-2.0-OpenSSH_9.6\r\n", FaultCategory.INVALID_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", FaultCategory.INVALID_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, FaultCategory.INVALID_RESPONSE),
        (b"", FaultCategory.CONNECTION_RESET),
    ],
)
async def test_each_answer_gets_its_category(prober: Prober, answer: bytes, expected: FaultCategory | None) -> None:
    """Whatever comes back, the check ends with a result."""
    async with serving(HttpAnswers(answer)) as port:
        assert expected == category(await prober.check([http(port)], SPEC))


async def test_a_redirect_is_an_answer_and_is_not_followed(prober: Prober) -> None:
    """Where it leads is not ours to go."""
    elsewhere = HttpAnswers(WELCOME)
    async with (
        serving(elsewhere) as target,
        serving(HttpAnswers(http_answer(302, Location=f"http://127.0.0.1:{target}/"))) as port,
    ):
        report = await prober.check([http(port)], SPEC)

    assert report.overall is OverallHealth.HEALTHY
    assert elsewhere.heads == []


async def test_an_endless_body_is_read_to_the_limit_only(prober: Prober) -> None:
    """A stream is alive, and must not fill our memory."""

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with serving(flood) as port:
        peak, report = await _peak(prober, http(port))

    assert report.overall is OverallHealth.HEALTHY
    assert peak < 4_000_000


async def test_a_compressed_bomb_is_not_blown_up(prober: Prober) -> None:
    """64 MiB of zeros travel in 64 KiB."""
    bomb = http_answer(200, gzip.compress(b"\0" * (64 << 20)), Content_Encoding="gzip")
    async with serving(HttpAnswers(bomb)) as port:
        peak, report = await _peak(prober, http(port))

    assert report.overall is OverallHealth.HEALTHY
    assert peak < 4_000_000


async def _peak(prober: Prober, endpoint: Endpoint) -> tuple[int, HealthReport]:
    """Bytes allocated at most while *endpoint* is checked."""
    tracemalloc.start()
    try:
        report = await prober.check([endpoint], SPEC)
        return tracemalloc.get_traced_memory()[1], report
    finally:
        tracemalloc.stop()


async def test_a_body_that_never_ends_does_not_undo_a_good_status(prober: Prober) -> None:
    """An event stream is an application at work."""

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await asyncio.Event().wait()

    async with serving(stream) as port:
        assert category(await prober.check([http(port)], IMPATIENT)) is None


async def test_silence_is_a_timeout(prober: Prober) -> None:
    """A check ends when its time is over."""

    async def hang(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(hang) as port:
        assert category(await prober.check([http(port)], IMPATIENT)) is FaultCategory.TIMEOUT


async def test_a_reset_is_distinguished_from_a_refusal(prober: Prober) -> None:
    """One means that something listens."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        lingering = struct.pack("ii", 1, 0)  # closing such a socket sends a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)

    async with serving(reset) as port:
        assert category(await prober.check([http(port)], SPEC)) is FaultCategory.CONNECTION_RESET
    assert category(await prober.check([http(unused_port())], SPEC)) is FaultCategory.CONNECTION_REFUSED


async def test_something_else_than_tls_is_an_ssl_error(prober: Prober) -> None:
    """Port 443 is served by a program that speaks plain text."""

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"this is not TLS\r\n")
        await writer.drain()

    async with serving(babble) as port:
        assert category(await prober.check([http(port, scheme="https")], SPEC)) is FaultCategory.SSL_ERROR


async def test_an_untrusted_certificate_is_an_ssl_error(prober: Prober) -> None:
    """Browsers would not open it either."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(CERTIFICATE)
    answers = HttpAnswers(WELCOME)

    async with serving(answers, tls=tls) as port:
        assert category(await prober.check([http(port, scheme="https")], SPEC)) is FaultCategory.SSL_ERROR
    assert answers.heads == []


async def test_tcp_is_checked_by_connecting(prober: Prober) -> None:
    """Nothing is sent: the protocol is unknown."""
    said: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        said.append(await reader.read())

    async with serving(listen) as port:
        report = await prober.check([tcp(port), tcp(unused_port())], SPEC)
        await until(lambda: said, what="the end of the connection")

    assert report.overall is OverallHealth.PARTIAL
    assert said == [b""]
    error = report.endpoints[1].error
    assert error is not None
    assert (error.category, error.message) == (FaultCategory.CONNECTION_REFUSED, "refused the connection")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (None, FaultCategory.NETWORK_UNREACHABLE),
        ("http://", FaultCategory.INVALID_RESPONSE),
        ("http://127.0.0.1:port", FaultCategory.INVALID_RESPONSE),
        ("ftp://127.0.0.1/", FaultCategory.INVALID_RESPONSE),
        ("http://" + "a" * 70 + ".invalid/", FaultCategory.INVALID_RESPONSE),
    ],
)
async def test_an_unusable_address_is_reported_not_raised(
    prober: Prober, address: str | None, expected: FaultCategory
) -> None:
    """It is the provider's answer; ours is a report."""
    endpoint = Endpoint(port=80, kind=PortKind.HTTP, address=address)

    assert expected is category(await prober.check([endpoint], SPEC))


async def test_nothing_to_check_is_healthy(prober: Prober) -> None:
    """An instance without ports, or with UDP alone, is ready when it runs."""
    udp = Endpoint(port=53, kind=PortKind.UDP, address="127.0.0.1:53")

    assert (await prober.check([udp], SPEC)).overall is OverallHealth.HEALTHY
    assert (await prober.check([], SPEC)).overall is OverallHealth.HEALTHY


async def test_all_endpoints_are_asked_at_the_same_time(prober: Prober) -> None:
    """Each of two servers answers only when the other has been asked."""
    both = asyncio.Barrier(2)

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await both.wait()
        writer.write(WELCOME)

    async with serving(meet) as one, serving(meet) as other:
        assert (await prober.check([http(one), http(other)], SPEC)).overall is OverallHealth.HEALTHY


async def test_a_later_check_counts_on(prober: Prober, clock: SteppedClock) -> None:
    """The report is all a later process needs to go on with the wait."""
    began_at = clock.now()
    async with serving(HttpAnswers(GATEWAY, WELCOME)) as port:
        first = await prober.check([http(port)], SPEC)
        clock.advance(7)
        second = await prober.check([http(port)], SPEC, previous=first)

    assert (first.overall, second.overall) == (OverallHealth.UNHEALTHY, OverallHealth.HEALTHY)
    assert (second.checks, second.first_checked_at, second.last_checked_at) == (2, began_at, clock.now())


METADATA = "169.254.169.254"


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:{port}", "http://metadata.example:{port}", "https://[::ffff:127.0.0.1]:{port}/latest"]
)
@pytest.mark.parametrize("kind", [PortKind.HTTP, PortKind.TCP])
async def test_an_inner_address_from_the_provider_is_never_connected_to(
    clock: SteppedClock, address: str, kind: PortKind
) -> None:
    """The provider says where an endpoint is; it must not lead us to our own network."""
    answers = HttpAnswers(WELCOME)
    public_only = AddressPolicy(allow_private=False)
    async with (
        serving(answers) as port,
        Prober.open(clock=clock, policy=public_only, names=Names(["127.0.0.1", METADATA])) as prober,
    ):
        report = await prober.check([Endpoint(port=80, kind=kind, address=address.format(port=port))], SPEC)

    (seen,) = report.endpoints
    assert seen.error is not None
    assert (seen.error.category, seen.error.retryable) == (FaultCategory.ADDRESS_REFUSED, False)
    assert "is not connected to" in seen.error.message
    assert answers.heads == []


async def test_beside_a_provider_on_loopback_only_loopback_is_allowed(prober: Prober) -> None:
    """The simulator's machines are here; a private address is not one of them."""
    endpoints = [Endpoint(port=80, kind=kind, address=f"{METADATA}:80") for kind in (PortKind.HTTP, PortKind.TCP)]
    report = await prober.check(endpoints, SPEC)

    assert [error.category for error in report.errors] == [FaultCategory.ADDRESS_REFUSED] * 2


async def test_tcp_connects_to_the_address_that_was_checked(clock: SteppedClock) -> None:
    """One lookup: a name that answers differently the second time gains nothing. A dead address is passed over."""
    names = Names(["::1", "127.0.0.1"], [METADATA])
    policy = AddressPolicy(allow_private=False, allow_loopback=True)
    async with serving(HttpAnswers(WELCOME)) as port, Prober.open(clock=clock, policy=policy, names=names) as prober:
        endpoint = Endpoint(port=22, kind=PortKind.TCP, address=f"machine.example:{port}")
        assert (await prober.check([endpoint], SPEC)).overall is OverallHealth.HEALTHY
        assert category(await prober.check([endpoint], SPEC)) is FaultCategory.ADDRESS_REFUSED

    assert names.asked == 2


async def test_a_name_without_an_address_is_a_failed_lookup(clock: SteppedClock) -> None:
    """For TCP as for HTTP."""
    async with Prober.open(clock=clock, policy=AddressPolicy(allow_private=True), names=Names([])) as prober:
        endpoint = Endpoint(port=22, kind=PortKind.TCP, address="machine.example:22")

        assert category(await prober.check([endpoint], SPEC)) is FaultCategory.DNS_RESOLUTION_FAILED
