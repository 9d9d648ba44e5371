"""
Which URLs webhooks may be sent to: none inside our own network, unless the operator allows it.

Every caller that may create an instance names a URL that this server will call; without a guard that could be what only
this server can reach: the database, a metadata service, a neighbour. `AddressGuard.problem` checks the URL when it is
given, as far as possible; the connector checks every connection again (`outbound/policy.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from functools import partial

from aiohttp.abc import AbstractResolver
from yarl import URL

from corral.base.clock import Clock
from corral.base.network_errors import REFUSED
from corral.cache.cache import Cache
from corral.domain.errors import FieldProblem
from corral.outbound.addresses import read_address
from corral.outbound.policy import AddressPolicy, PinnedResolver
from corral.outbound.resolver import ThreadedResolver
from corral.webhooks.slots import Target

LONGEST_URL = 2048
"""Characters; what browsers and proxies agree to carry."""

LONGEST_SHOWN = 200
"""Characters of a refused URL that the error repeats."""

LOOKUP_PATIENCE_SECONDS = 0.25
"""How long a request waits for the name's addresses; they are checked again when sending, so an unknown one is no risk.
Longer, and a slow name server makes creating instances slow."""

CHECKING_THREADS = 4
"""Lookups for new requests at the same time; more names than that are accepted unchecked, and checked when sending."""

LOOKUP_MEMORY_SECONDS = 30.0
LOOKUPS_REMEMBERED = 256
"""A burst of requests names few hosts; each is looked up once."""

_HOST_NAME = re.compile(
    r"(?!.{254})(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class AddressGuard(AddressPolicy):
    """Decides where webhooks may be sent; one for the process. *resolver* replaces the system's name lookups."""

    def __init__(self, *, clock: Clock, allow_private: bool, resolver: AbstractResolver | None = None) -> None:
        super().__init__(allow_private=allow_private)
        # Names in new requests are anything a caller writes: they must not delay the lookups of messages.
        self._checking = resolver or ThreadedResolver(threads=CHECKING_THREADS)
        self._sending = resolver or ThreadedResolver()
        self._admitted: Cache[bool] = Cache(
            ttl_seconds=LOOKUP_MEMORY_SECONDS, most_entries=LOOKUPS_REMEMBERED, clock=clock
        )

    def pinned_resolver(self) -> PinnedResolver:
        """A resolver for a connector."""
        return PinnedResolver(self, self._sending)

    async def target(self, url: str) -> Target:
        """
        Where a message to *url* goes, for counting messages in flight.

        A name that is not resolved quickly counts by itself: the sender looks it up again, within its own time-out.
        """
        read = _read(url)
        host = address = read.raw_host or ""
        if read_address(host) is None:
            with contextlib.suppress(OSError, UnicodeError):
                async with asyncio.timeout(LOOKUP_PATIENCE_SECONDS):
                    found = await self._sending.resolve(host, read.port or 0, socket.AF_UNSPEC)
                    address = found[0]["host"] if found else host
        return Target(receiver=f"{host}:{read.port}", address=address)

    def fault(self, url: str) -> str | None:
        """What is wrong with the text of *url*, in a sentence that repeats nothing of it."""
        if not 0 < len(url) <= LONGEST_URL:
            return f"must have 1 to {LONGEST_URL} characters"
        # Programs parse these differently, and no URL needs them.
        if any(char.isspace() or not char.isprintable() or char == "\\" for char in url):
            return "must not contain spaces, control characters or backslashes"
        try:
            read = _read(url)
        except ValueError:
            return "is not a valid URL"
        if read.scheme not in ("http", "https") or not read.raw_host or read.port == 0:
            return "must be an http:// or https:// URL with a host"
        return self._host_fault(read.raw_host)

    async def problem(self, url: str, *, field: str = "webhookUrl") -> FieldProblem | None:
        """What is wrong with *url*, as far as known by now; the value is shown only when it can hold no secret."""
        message = self.fault(url)
        if message is None and not await self._may_lead_outside(_read(url).raw_host or ""):
            message = f"its host name resolves to what {REFUSED}"
        if message is None:
            return None
        shows = len(url) <= LONGEST_SHOWN and _is_bare(url)
        return FieldProblem(
            field=field, code="INVALID_WEBHOOK_URL", message=message, value=url if shows else None, shows_value=shows
        )

    def _host_fault(self, host: str) -> str | None:
        name = host.removesuffix(".")
        if ":" in host or _NUMBER.fullmatch(name.rpartition(".")[2]):
            # 127.1, 0x7f000001 and 017700000001 all mean 127.0.0.1 to some program; only one spelling is taken.
            if "%" in host or read_address(host) is None:
                return "must write an IP address in its usual form"
            return None if self.admits(host) else f"its host {REFUSED}"
        if not _HOST_NAME.fullmatch(name):
            return "must have a valid host name"
        if (name == "localhost" or name.endswith(".localhost")) and not self.allow_private:
            return f"its host {REFUSED}"
        return None

    async def _may_lead_outside(self, host: str) -> bool:
        """False when *host* certainly has no allowed address; True when it has one, or its addresses are unknown."""
        if self.allow_private or read_address(host) is not None:
            return True
        try:
            async with asyncio.timeout(LOOKUP_PATIENCE_SECONDS):
                return await self._admitted.get(host, partial(self._look_up, host))
        except TimeoutError:
            return True

    async def _look_up(self, host: str) -> bool:
        try:
            found = await self._checking.resolve(host, family=socket.AF_UNSPEC)
        except (OSError, UnicodeError):
            return True
        return not found or any(self.admits(one["host"]) for one in found)


def _read(url: str) -> URL:
    """*url* as aiohttp parses it; raises ValueError when it is invalid, also where yarl raises IndexError."""
    try:
        return URL(url)
    except IndexError as error:  # `http://[::]@`: brackets, but not around the host
        raise ValueError("not a URL") from error


def _is_bare(url: str) -> bool:
    """Whether *url* is an origin and nothing more: passwords, paths, queries and fragments may be secrets."""
    try:
        read = _read(url)
    except ValueError:
        return False
    if not read.raw_host:  # `x://:80` has an authority without one, of which yarl cannot write the host
        return False
    # By the text as well: what yarl makes of it has lost `/s3cret/..` on the way.
    origin = f"{read.scheme}://{read.raw_authority}"
    return read.raw_authority == read.host_port_subcomponent and url.lower().removesuffix("/") == origin.lower()
