"""
Name lookups in threads of their own, with a time-out.

`getaddrinfo` blocks a thread until the name server answers, and cannot be cancelled. In the event loop's shared thread
pool, a few names with a silent name server would stop every other lookup, those of the provider client included. So
each purpose (checking a URL, sending webhooks, probing endpoints) has a resolver with a limited number of threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

LOOKUP_THREADS = 8
"""Threads of one resolver that may wait for name servers at the same time. Fewer, and a few names with a silent name
server delay the other lookups; more only costs memory while they wait."""
LOOKUP_SECONDS = 3.0
"""How long a lookup may take, waiting for a thread included. Shorter, and a slow but working name server fails
deliveries; longer, and a hostile name holds a sender for longer."""
ANSWERS_KEPT = 256
"""Names with a stored last answer, for use while their name server does not answer."""

Lookup = Callable[[str, int, int], list[tuple[Any, ...]]]
"""Looks up (host, port, family) and blocks while it does; returns or raises what `socket.getaddrinfo` does."""


@dataclass(frozen=True, slots=True)
class _Key:
    host: str
    port: int
    family: int


class ThreadedResolver(AbstractResolver):
    """Resolves names in at most *threads* daemon threads; a thread that hangs delays neither others nor the exit."""

    def __init__(
        self, *, threads: int = LOOKUP_THREADS, seconds: float = LOOKUP_SECONDS, lookup: Lookup | None = None
    ) -> None:
        self._free = asyncio.Semaphore(threads)
        self._seconds = seconds
        self._lookup = lookup or _getaddrinfo
        self._running: dict[_Key, asyncio.Future[list[ResolveResult]]] = {}
        self._known: dict[_Key, list[ResolveResult]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """
        The addresses of *host*; raises OSError when there are none or nothing answered in time.

        While its name server does not answer, a name keeps the addresses it had.
        """
        key = _Key(host, port, family)
        try:
            async with asyncio.timeout(self._seconds):
                found = await asyncio.shield(await self._started(key))
        except TimeoutError:
            if key in self._known:
                return self._known[key]
            raise socket.gaierror(socket.EAI_AGAIN, "the name server did not answer in time") from None
        self._keep(key, found)
        return found

    async def close(self) -> None:
        """Nothing to release: threads end with their lookups."""

    async def _started(self, key: _Key) -> asyncio.Future[list[ResolveResult]]:
        """The lookup of *key* that is running, or a new one once a thread is free."""
        if key not in self._running:
            await self._free.acquire()
            if key in self._running:  # another task started it meanwhile
                self._free.release()
        if key not in self._running:
            answer = asyncio.get_running_loop().create_future()
            answer.add_done_callback(lambda _: self._ended(key, answer))
            self._running[key] = answer
            threading.Thread(
                target=self._run, args=(key, answer, answer.get_loop()), name="name-lookup", daemon=True
            ).start()
        return self._running[key]

    def _ended(self, key: _Key, answer: asyncio.Future[list[ResolveResult]]) -> None:
        del self._running[key]
        self._free.release()
        if not answer.cancelled():
            answer.exception()  # marks it as seen: the task that asked may have given up

    def _run(self, key: _Key, answer: asyncio.Future[list[ResolveResult]], loop: asyncio.AbstractEventLoop) -> None:
        """Look *key* up; runs in a thread."""
        outcome: list[ResolveResult] | Exception
        try:
            outcome = _results(key, self._lookup(key.host, key.port, key.family))
        except Exception as error:  # noqa: BLE001  # raised again where the answer is awaited
            outcome = error
        with contextlib.suppress(RuntimeError):  # the event loop is closed: the process ends
            loop.call_soon_threadsafe(_settle, answer, outcome)

    def _keep(self, key: _Key, found: list[ResolveResult]) -> None:
        self._known.pop(key, None)
        self._known[key] = found
        if len(self._known) > ANSWERS_KEPT:
            del self._known[next(iter(self._known))]


def _settle(answer: asyncio.Future[list[ResolveResult]], outcome: list[ResolveResult] | Exception) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _getaddrinfo(host: str, port: int, family: int) -> list[tuple[Any, ...]]:
    return list(socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))


def _results(key: _Key, found: list[tuple[Any, ...]]) -> list[ResolveResult]:
    return [
        ResolveResult(
            hostname=key.host,
            host=_host(address),
            port=address[1],
            family=family,
            proto=protocol,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for family, _, protocol, _, address in found
    ]


def _host(address: Sequence[Any]) -> str:
    """The IP address; a link-local one of IPv6 with its interface."""
    scope = address[3] if len(address) > 3 else 0  # noqa: PLR2004  # (host, port, flow, scope)
    return f"{address[0]}%{scope}" if scope else str(address[0])
