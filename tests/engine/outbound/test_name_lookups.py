"""Name lookups: a silent name server delays nothing but its own names."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from typing import Any

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until

from corral.outbound.resolver import ANSWERS_KEPT, ThreadedResolver
from corral.webhooks.guard import AddressGuard

ANSWER = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 443))]


class NameServer:
    """Answers names at once, but those that begin with `slow` not before `answer` is set."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, family: int) -> list[tuple[Any, ...]]:
        del port, family
        self.asked.append(host)
        if host.startswith("slow"):
            self.answer.wait()
        if host.startswith("unknown"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return ANSWER


@pytest.fixture
def server() -> Generator[NameServer]:
    server = NameServer()
    yield server
    server.answer.set()


async def test_slow_names_in_requests_leave_the_shared_threads_alone(
    server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider client resolves names in the event loop's own threads, of which there are few."""
    system = socket.getaddrinfo

    def lookup(host: str, port: Any, family: int = 0, *more: Any, **options: Any) -> Any:
        return server(host, port, family) if host.endswith(".example") else system(host, port, family, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    guard = AddressGuard(clock=SteppedClock(), allow_private=False)
    names = [f"https://slow{number}.example/" for number in range(100)]

    assert set(await asyncio.gather(*map(guard.problem, names))) == {None}
    provider = asyncio.get_running_loop().getaddrinfo("localhost", 443)
    assert await asyncio.wait_for(provider, 5)
    server.answer.set()


async def test_a_lookup_ends_with_its_time_out(server: NameServer) -> None:
    """The thread may hang for longer; the task that asked does not."""
    resolver = ThreadedResolver(seconds=0.05, lookup=server)

    with pytest.raises(socket.gaierror, match="did not answer in time"):
        await resolver.resolve("slow.example")


async def test_only_so_many_lookups_run_at_once(server: NameServer) -> None:
    """A task that waits for a thread waits no longer than one that has it; a thread that is free again is used."""
    resolver = ThreadedResolver(threads=2, seconds=0.1, lookup=server)
    names = ["slow1.example", "slow2.example", "slow3.example", "quick.example"]

    ends = await asyncio.gather(*map(resolver.resolve, names), return_exceptions=True)
    assert [type(end) for end in ends] == [socket.gaierror] * 4
    assert sorted(server.asked) == names[:2]

    server.answer.set()
    await until(lambda: _resolves(resolver, "quick.example"))


async def test_a_name_is_looked_up_once_for_all_that_ask(server: NameServer) -> None:
    """A hundred messages to one host take one thread, also when the first of them has given up."""
    resolver = ThreadedResolver(threads=2, seconds=1.0, lookup=server)
    await asyncio.gather(*(resolver.resolve("slow.example") for _ in range(50)), return_exceptions=True)
    asking = [asyncio.create_task(resolver.resolve("slow.example")) for _ in range(50)]
    await asyncio.wait(asking, timeout=0.01)
    server.answer.set()

    assert {found[0]["host"] for found in await asyncio.gather(*asking)} == {"192.0.2.7"}
    assert server.asked == ["slow.example"]


async def test_a_name_keeps_its_addresses_while_its_server_is_silent(server: NameServer) -> None:
    """A hostile name that takes every thread must not stop messages to receivers that are known."""
    resolver = ThreadedResolver(threads=1, seconds=0.05, lookup=server)
    first = await resolver.resolve("quick.example", 443)
    with pytest.raises(socket.gaierror):
        await resolver.resolve("slow.example")

    assert await resolver.resolve("quick.example", 443) == first
    assert server.asked == ["quick.example", "slow.example"]


async def test_a_name_that_does_not_exist_is_an_error_at_once(server: NameServer) -> None:
    """Also when it existed before: that is an answer."""
    resolver = ThreadedResolver(lookup=server)

    with pytest.raises(socket.gaierror, match="no such name"):
        await resolver.resolve("unknown.example")
    await resolver.close()


async def test_only_so_many_answers_are_kept(server: NameServer) -> None:
    """Names come from callers."""
    resolver = ThreadedResolver(threads=1, seconds=0.5, lookup=server)
    for number in range(ANSWERS_KEPT + 1):
        await resolver.resolve(f"quick{number}.example")
    blocked = asyncio.create_task(resolver.resolve("slow.example"))
    await until(lambda: server.asked[-1] == "slow.example")

    assert await resolver.resolve(f"quick{ANSWERS_KEPT}.example")
    with pytest.raises(socket.gaierror):
        await resolver.resolve("quick0.example")
    await asyncio.gather(blocked, return_exceptions=True)


async def test_the_system_resolves_names_for_both_families() -> None:
    """By the real name service; a link-local address keeps its interface."""
    found = await ThreadedResolver().resolve("localhost", 80, socket.AF_UNSPEC)
    scoped = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 80, 0, 2))]

    assert {one["host"] for one in found} <= {"127.0.0.1", "::1"}
    (local,) = await ThreadedResolver(lookup=lambda *_: scoped).resolve("router.example", 80, socket.AF_UNSPEC)
    assert (local["host"], local["port"], local["family"]) == ("fe80::1%2", 80, socket.AF_INET6)


async def _resolves(resolver: ThreadedResolver, name: str) -> bool:
    try:
        return bool(await resolver.resolve(name))
    except socket.gaierror:
        return False
