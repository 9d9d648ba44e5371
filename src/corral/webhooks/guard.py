"""
Where a webhook may go: nowhere inside our own network, unless the operator allows it.

Anyone who may create an instance names a URL that this server will call, so without a guard they could reach what only
this server can: the database, a metadata service, a neighbour. What counts is the address *connected to*:

- `problem` looks at the URL when it is given, as far as that can be known then;
- `PinnedResolver` resolves a name once per connection and hands on approved addresses only, so a name that answers
  differently the second time gains nothing;
- `open_socket` has the last word on every connection, also on addresses written into the URL.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from dataclasses import dataclass

from aiohttp import AddrInfoType, DefaultResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from corral.clock import Clock
from corral.domain.errors import FieldProblem
from corral.webhooks.addresses import is_public, read_address

LONGEST_URL = 2048
"""Characters; what browsers and proxies agree to carry."""

LONGEST_SHOWN = 200
"""Characters of a refused URL that are repeated to the caller."""

LOOKUP_PATIENCE_SECONDS = 0.25
"""
How long a request waits for the name's addresses; they are looked at again when sending, so not knowing is no risk.

Longer, and a slow name server makes creating instances slow.
"""

LOOKUP_MEMORY_SECONDS = 30.0
LOOKUPS_REMEMBERED = 256
"""A burst of requests names few hosts; each is looked up once."""

_REFUSED = "is a loopback, private, link-local or otherwise reserved address"
_HOST_NAME = re.compile(
    r"(?!.{254})(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class AddressRefusedError(OSError):
    """The connection would go where webhooks may not; an OSError, because it speaks through aiohttp's connector."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EACCES, f"{what} {_REFUSED}")


@dataclass(frozen=True, slots=True)
class _Lookup:
    until: float
    task: asyncio.Task[bool]


class AddressGuard:
    """Says where webhooks may go; one for the whole process."""

    def __init__(self, *, clock: Clock, allow_private: bool, resolver: AbstractResolver | None = None) -> None:
        self._clock = clock
        self._allow_private = allow_private
        self._resolver = resolver
        self._lookups: dict[str, _Lookup] = {}

    def admits(self, address: str) -> bool:
        """Whether a connection to the IP *address* is allowed; what is no address is not."""
        read = read_address(address)
        return read is not None and (self._allow_private or is_public(read))

    def open_socket(self, place: AddrInfoType) -> socket.socket:
        """Make the socket for one connection (aiohttp's `socket_factory`); raises AddressRefusedError."""
        family, kind, protocol, _, address = place
        if not self.admits(str(address[0])):
            raise AddressRefusedError("the address")
        return socket.socket(family, kind, protocol)

    def pinned_resolver(self) -> PinnedResolver:
        """A resolver for a connector."""
        return PinnedResolver(self, self._names())

    def fault(self, url: str) -> str | None:
        """What is wrong with *url* by its looks alone, in words that repeat nothing of it."""
        if not 0 < len(url) <= LONGEST_URL:
            return f"must have 1 to {LONGEST_URL} characters"
        # Programs that read URLs disagree about these; nobody needs them.
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
        """What is wrong with *url* as far as it can be told by now; the value is shown only when it hides nothing."""
        message = self.fault(url)
        if message is None and not await self._may_lead_outside(_read(url).raw_host or ""):
            message = f"its host name stands for what {_REFUSED}"
        if message is None:
            return None
        shows = len(url) <= LONGEST_SHOWN and _is_bare(url)
        return FieldProblem(
            field=field,
            code="INVALID_WEBHOOK_URL",
            message=message,
            value=url if shows else None,
            shows_value=shows,
        )

    def _host_fault(self, host: str) -> str | None:
        name = host.removesuffix(".")
        if ":" in host or _NUMBER.fullmatch(name.rpartition(".")[2]):
            # 127.1, 0x7f000001 and 017700000001 all mean 127.0.0.1 to some program; only one spelling is taken.
            if "%" in host or read_address(host) is None:
                return "must write an IP address in its usual form"
            return None if self.admits(host) else f"its host {_REFUSED}"
        if not _HOST_NAME.fullmatch(name):
            return "must have a valid host name"
        if (name == "localhost" or name.endswith(".localhost")) and not self._allow_private:
            return f"its host {_REFUSED}"
        return None

    async def _may_lead_outside(self, host: str) -> bool:
        """False when *host* certainly has no allowed address; True when it has, and when nobody knows."""
        if self._allow_private or read_address(host) is not None:
            return True
        now = self._clock.monotonic()
        known = self._lookups.get(host)
        if known is None or known.until <= now:
            known = _Lookup(now + LOOKUP_MEMORY_SECONDS, asyncio.create_task(self._look_up(host)))
            self._lookups.pop(host, None)
            self._lookups[host] = known
            if len(self._lookups) > LOOKUPS_REMEMBERED:
                del self._lookups[next(iter(self._lookups))]
        try:
            return await asyncio.wait_for(asyncio.shield(known.task), LOOKUP_PATIENCE_SECONDS)
        except TimeoutError:
            return True

    async def _look_up(self, host: str) -> bool:
        try:
            found = await self._names().resolve(host, family=socket.AF_UNSPEC)
        except (OSError, UnicodeError):
            return True
        return not found or any(self.admits(one["host"]) for one in found)

    def _names(self) -> AbstractResolver:
        """The resolver underneath; made late, because aiohttp's needs a running event loop."""
        if self._resolver is None:
            self._resolver = DefaultResolver()
        return self._resolver


class PinnedResolver(AbstractResolver):
    """Resolves a name once for a connection, and passes on the addresses the guard admits."""

    def __init__(self, guard: AddressGuard, names: AbstractResolver) -> None:
        self._guard = guard
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The allowed addresses of *host*; raises AddressRefusedError when it has others only."""
        found = await self._names.resolve(host, port, family)
        admitted = [one for one in found if self._guard.admits(one["host"])]
        if found and not admitted:
            raise AddressRefusedError("its host name stands for what")
        return admitted

    async def close(self) -> None:
        """Nothing to release: the resolver underneath is shared."""


def _read(url: str) -> URL:
    """*url* as aiohttp reads it; raises ValueError when it is none, also where yarl trips over it."""
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
