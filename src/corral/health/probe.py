"""
Health checks of an instance's endpoints.

The machines are not ours and may hang, send slowly, send too much, redirect, or send a compressed bomb. So every check
ends within its time-out, at most 64 KiB of a response are held, no redirect is followed, and no response raises. The
provider gives the addresses; those that the policy does not admit, such as a metadata service, are not connected to.
Certificates are verified: an endpoint that browsers would warn of is not ready.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, urlsplit, urlunsplit

import aiohttp
from aiohttp.abc import AbstractResolver

from corral import __version__
from corral.base.clock import Clock
from corral.base.network_errors import EXCHANGE_ERRORS, AddressRefusedError, fault_category, fault_message
from corral.domain.health.checks import (
    BODY_LIMIT,
    EndpointHealth,
    HealthCheckSpec,
    HealthReport,
    ProbeFailure,
    answer_failure,
    checkable,
)
from corral.domain.health.network_faults import FaultCategory
from corral.domain.observation.sighting import Endpoint
from corral.domain.placement.catalog import PortKind
from corral.outbound.addresses import read_address
from corral.outbound.policy import AddressPolicy, PinnedResolver
from corral.outbound.resolver import ThreadedResolver

BODY_PATIENCE_SECONDS = 2.0
"""How long the body may take after the status; then what was received is judged. An application that streams (events,
video) never ends its body and is alive. Longer only delays such an application; much shorter, and an error page behind
a slow proxy could be missed."""

_WELL_KNOWN_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True, kw_only=True)
class Prober:
    """Checks endpoints, for all instances at once. Made by `open`."""

    session: aiohttp.ClientSession
    clock: Clock
    policy: AddressPolicy
    resolver: AbstractResolver

    @classmethod
    @asynccontextmanager
    async def open(
        cls, *, clock: Clock, policy: AddressPolicy, names: AbstractResolver | None = None
    ) -> AsyncGenerator[Self]:
        """A prober for the length of the block; *names* replaces the system's name lookups."""
        resolver = PinnedResolver(policy, names or ThreadedResolver())
        async with aiohttp.ClientSession(
            # Every check proves a connection of its own, and none waits for a free one: jobs limit how many run.
            connector=aiohttp.TCPConnector(
                force_close=True, limit=0, resolver=resolver, socket_factory=policy.open_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,  # `_unpacked` does it, and stops at the limit
            headers={
                "User-Agent": f"Corral/{__version__} (health check)",
                "Accept": "text/html, */*",
                "Accept-Encoding": "identity",
            },
        ) as session:
            yield cls(session=session, clock=clock, policy=policy, resolver=resolver)

    async def check(
        self, endpoints: Iterable[Endpoint], spec: HealthCheckSpec, *, previous: HealthReport | None = None
    ) -> HealthReport:
        """
        Check every endpoint that *spec* selects once, all at the same time, within little more than `timeout_ms`.

        *previous* is the report of the check before; the result continues its count.
        """
        began_at = self.clock.now()
        chosen = checkable(endpoints, spec.target_port)
        seen = await asyncio.gather(*(self._check_endpoint(one, spec) for one in chosen))
        return HealthReport(
            endpoints=tuple(seen),
            first_checked_at=began_at if previous is None else previous.first_checked_at,
            last_checked_at=self.clock.now(),
            checks=1 if previous is None else previous.checks + 1,
        )

    async def _check_endpoint(self, endpoint: Endpoint, spec: HealthCheckSpec) -> EndpointHealth:
        began = self.clock.monotonic()
        error = await self._failure(endpoint, spec)
        return EndpointHealth(
            port=endpoint.port,
            kind=endpoint.kind,
            address=endpoint.address,
            response_time_ms=round((self.clock.monotonic() - began) * 1000),
            last_checked_at=self.clock.now(),
            error=error,
        )

    async def _failure(self, endpoint: Endpoint, spec: HealthCheckSpec) -> ProbeFailure | None:
        if not endpoint.address:
            return ProbeFailure(
                category=FaultCategory.NETWORK_UNREACHABLE, message="the provider has not given its address"
            )
        seconds = spec.timeout_ms / 1000
        try:
            if endpoint.kind is PortKind.TCP:
                await self._connect(*tcp_place(endpoint), seconds)
                return None
            return await self._get(http_url(endpoint, spec.path), seconds)
        except EXCHANGE_ERRORS as error:
            return ProbeFailure(category=fault_category(error), message=fault_message(error))

    async def _connect(self, host: str, port: int, seconds: float) -> None:
        """Connect to the first address of *host* that accepts, and to none that was not checked."""
        errors: list[OSError] = []
        async with asyncio.timeout(seconds):
            for address in await self._addresses(host, port):
                try:
                    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, address, port)
                except OSError as error:
                    errors.append(error)
                else:
                    transport.close()
                    return
        raise errors[0] if errors else socket.gaierror(socket.EAI_NODATA, "the name has no address")

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The addresses behind *host* that may be connected to; raises AddressRefusedError when none may."""
        if read_address(host) is None:
            return [found["host"] for found in await self.resolver.resolve(host, port, socket.AF_UNSPEC)]
        if not self.policy.admits(host):
            raise AddressRefusedError("the address")
        return [host]

    async def _get(self, url: str, seconds: float) -> ProbeFailure | None:
        async with asyncio.timeout(seconds):
            response = await self.session.get(url, allow_redirects=False)
        try:
            body = await _beginning(response.content, min(seconds, BODY_PATIENCE_SECONDS))
        finally:
            response.close()
        return answer_failure(
            response.status,
            response.headers.get("Content-Type"),
            _unpacked(body, response.headers.get("Content-Encoding", "")),
        )


async def _beginning(stream: aiohttp.StreamReader, seconds: float) -> bytes:
    """What arrives of the body within *seconds*, up to the limit."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while len(body) < BODY_LIMIT and (part := await stream.read(BODY_LIMIT - len(body))):
                body += part
    except TimeoutError:
        pass
    return bytes(body)


def _unpacked(body: bytes, encoding: str) -> bytes:
    """The beginning of *body* without gzip or deflate, up to the limit; as it is when packed some other way."""
    if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        # 32 lets zlib detect gzip or deflate.
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, BODY_LIMIT)
    except zlib.error:
        return b""


def http_url(endpoint: Endpoint, path: str) -> str:
    """
    Where to send a GET for *path*; raises ValueError when the address cannot be read.

    *path* goes below the path of the address, and may bring a query; "/" asks for the address as it is. An address
    without a scheme gets the kind of its port.
    """
    place = _split(endpoint, scheme=endpoint.kind.value)
    below, _, query = path.partition("#")[0].partition("?")
    joined = f"{place.path.rstrip('/')}/{below.lstrip('/')}" if below.strip("/") else place.path or "/"
    queries = "&".join(part for part in (place.query, query) if part)
    return urlunsplit((place.scheme, place.netloc, joined, queries, ""))


def tcp_place(endpoint: Endpoint) -> tuple[str, int]:
    """The host and port to connect to; raises ValueError when the address cannot be read."""
    place = _split(endpoint, scheme="")
    return place.hostname or "", place.port or _WELL_KNOWN_PORTS.get(place.scheme, endpoint.port)


def _split(endpoint: Endpoint, *, scheme: str) -> SplitResult:
    """The parts of the address, a host among them."""
    address = (endpoint.address or "").strip()
    place = urlsplit(address if "://" in address else f"//{address}", scheme=scheme)
    if not place.hostname:
        raise ValueError("the address names no host")
    return place
