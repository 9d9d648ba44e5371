"""Where webhooks may go, judged by the addresses of a name."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from support.clock.clocks import SteppedClock
from support.http.names import Names, SilentNames
from support.http.servers import HttpAnswers, http_answer, serving

from corral.base.network_errors import AddressRefusedError
from corral.webhooks.guard import LOOKUP_MEMORY_SECONDS, AddressGuard

PUBLIC = "1.1.1.1"


def guard(names: Names, *, clock: SteppedClock | None = None, allow_private: bool = False) -> AddressGuard:
    return AddressGuard(clock=clock or SteppedClock(), allow_private=allow_private, resolver=names)


@pytest.mark.parametrize(
    "answer", [["127.0.0.1"], ["10.0.0.1", "fd00:ec2::254"], ["::ffff:169.254.169.254"], ["fe80::1%2"]]
)
async def test_a_name_for_an_inner_address_is_refused(answer: list[str]) -> None:
    """At create time the caller still gets the error."""
    problem = await guard(Names(answer)).problem("https://hooks.example/corral", field="webhookUrl")

    assert problem is not None
    assert (problem.field, problem.code, problem.shows_value) == ("webhookUrl", "INVALID_WEBHOOK_URL", False)


@pytest.mark.parametrize(
    "answer", [[PUBLIC], [PUBLIC, "127.0.0.1"], [], socket.gaierror(socket.EAI_AGAIN, "later"), UnicodeError("label")]
)
async def test_a_name_that_may_lead_outside_is_taken(answer: list[str] | Exception) -> None:
    """Not knowing is no reason to refuse: the address is checked again when sending."""
    assert await guard(Names(answer)).problem("https://hooks.example/") is None


async def test_a_silent_name_server_does_not_hold_the_caller() -> None:
    """Creating an instance must stay quick."""
    assert await guard(SilentNames()).problem("https://hooks.example/") is None


async def test_names_are_not_asked_where_everything_is_allowed() -> None:
    """Nor for addresses that are written out."""
    names = Names(["127.0.0.1"])

    assert await guard(names, allow_private=True).problem("https://hooks.example/") is None
    assert await guard(names).problem(f"https://{PUBLIC}/") is None
    assert names.asked == 0


async def test_a_burst_asks_for_a_name_once_and_later_again() -> None:
    """A thousand instances name one receiver; its address may change one day."""
    clock = SteppedClock()
    names = Names([PUBLIC], ["127.0.0.1"])
    checking = guard(names, clock=clock)

    burst = await asyncio.gather(*(checking.problem("https://hooks.example/") for _ in range(50)))
    clock.advance(LOOKUP_MEMORY_SECONDS)
    later = await checking.problem("https://hooks.example/")

    assert burst == [None] * 50
    assert later is not None
    assert names.asked == 2


async def test_only_so_many_names_are_remembered() -> None:
    """The names come from callers."""
    names = Names([PUBLIC])
    checking = guard(names)

    for number in (*range(300), 0, 299):
        assert await checking.problem(f"https://hooks{number}.example/") is None

    assert names.asked == 301


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:9000/", True),
        ("http://127.0.0.1", True),
        ("http://user:password@127.0.0.1/", False),
        ("http://127.0.0.1/?token=1", False),
        ("http://127.0.0.1/services/T0/B0/secret", False),
        ("http://[::1/secret", False),
        ("secret", False),
    ],
)
async def test_a_refused_url_is_shown_only_when_it_hides_nothing(url: str, *, shown: bool) -> None:
    """Many receivers put their secret into the path."""
    problem = await guard(Names([PUBLIC])).problem(url)

    assert problem is not None
    assert (problem.shows_value, problem.value) == (shown, url if shown else None)


async def test_a_connector_gets_the_admitted_addresses_alone() -> None:
    """One look-up for one connection: what was checked is what is connected to."""
    names = Names(["127.0.0.1", PUBLIC, "::1"], ["127.0.0.1"])
    resolver = guard(names).pinned_resolver()

    assert [one["host"] for one in await resolver.resolve("hooks.example", 443)] == [PUBLIC]
    with pytest.raises(AddressRefusedError):
        await resolver.resolve("hooks.example", 443)
    await resolver.close()


async def test_the_connector_asks_before_every_connection() -> None:
    """A written-out address is never resolved, so this is where aiohttp must ask."""
    receiver = HttpAnswers(http_answer(200))
    connector = aiohttp.TCPConnector(socket_factory=guard(Names([])).open_socket)
    async with serving(receiver) as port, aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as refusal:
            await session.get(f"http://127.0.0.1:{port}/")

    assert isinstance(refusal.value.os_error, AddressRefusedError)
    assert receiver.heads == []


def test_no_socket_is_made_for_an_inner_address() -> None:
    """The last word, whatever path led here."""
    with pytest.raises(AddressRefusedError):
        guard(Names([])).open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)))
