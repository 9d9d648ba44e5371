"""
Opens log streams at the provider, for one reader each.

What is read is not trusted: no redirect is followed, no key or cookie is sent, compressed answers are refused (a bomb),
and the address is checked by name (`provider_hosts.py`) and where it is connected to (`policy.py`). Little is read
ahead, so that a reader that stops holds little memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver

from corral import __version__
from corral.base.network_errors import EXCHANGE_ERRORS, fault_message
from corral.outbound.policy import PinnedResolver
from corral.outbound.provider_hosts import ProviderHosts
from corral.outbound.resolver import ThreadedResolver

OPEN_SECONDS: Final = 10.0
"""From the name lookup to the headers. Shorter fails where the provider is slow; longer keeps a user waiting."""
READ_AHEAD_BYTES: Final = 8 * 1024
"""Of one stream: aiohttp stops reading at twice as much. Smaller costs more turns of the event loop; larger costs
memory for each reader that does not read."""


class LogUnavailableError(Exception):
    """A log stream that cannot be read; the text has nothing of its address."""

    def __init__(self, because: str, *, is_missing: bool = False) -> None:
        super().__init__(because)
        self.because = because
        self.is_missing = is_missing
        """Whether its host says that there is no such log."""


class LogStream:
    """One open stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def read(self) -> bytes:
        """The next bytes, as soon as there are some; empty at the end. Raises LogUnavailableError when it breaks."""
        content = self._response.content
        try:
            return await content.readany()
        except EXCHANGE_ERRORS as error:
            # aiohttp raises before it returns what arrived; the next call raises again.
            rest = b"".join(content._buffer)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            content._buffer.clear()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            if rest:
                return rest
            raise LogUnavailableError(fault_message(error)) from None

    def close(self) -> None:
        """Close the connection."""
        self._response.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLogs:
    """Opens log streams. Made by `open`."""

    session: aiohttp.ClientSession
    hosts: ProviderHosts

    @classmethod
    @asynccontextmanager
    async def open(cls, hosts: ProviderHosts, *, names: AbstractResolver | None = None) -> AsyncGenerator[Self]:
        """For the length of the block; *names* replaces the system's name lookups."""
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                force_close=True,
                limit=0,  # the relay limits how many are open
                resolver=PinnedResolver(hosts.policy, names or ThreadedResolver()),
                socket_factory=hosts.policy.open_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=READ_AHEAD_BYTES,
            headers={
                "User-Agent": f"corral/{__version__}",
                "Accept": "text/plain, */*",
                "Accept-Encoding": "identity",
            },
        ) as session:
            yield cls(session=session, hosts=hosts)

    async def stream(self, address: str, *, tail: int, follow: bool) -> LogStream:
        """The last *tail* lines of the log at *address*, and with *follow* what comes; raises LogUnavailableError."""
        allowed = self.hosts.address(address)
        if allowed is None:
            raise LogUnavailableError("its address is not one of the provider's")
        url = allowed.update_query({"follow": "1" if follow else "0", "sse": "0", "tail": str(tail)})
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                response = await self.session.get(url, allow_redirects=False)
        except EXCHANGE_ERRORS as error:
            raise LogUnavailableError(fault_message(error)) from None  # its text has the address
        problem = _problem(response)
        if problem is not None:
            response.close()
            raise problem
        return LogStream(response)


def _problem(response: aiohttp.ClientResponse) -> LogUnavailableError | None:
    if response.status != HTTPStatus.OK:
        is_missing = response.status in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}
        return LogUnavailableError(f"its host answered {response.status}", is_missing=is_missing)
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
        return LogUnavailableError("it is compressed, although that was not asked for")
    return None
