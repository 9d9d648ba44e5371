"""
Which addresses may be connected to: public ones, unless others are allowed.

The URL of a webhook comes from a caller, the address of an endpoint from the provider. Without a check, either could
make this process connect to what only this process can reach: the database, a metadata service, a neighbour.
What counts is the address *connected to*:

- `PinnedResolver` resolves a name once per connection and returns approved addresses only, so a name that resolves
  differently the second time changes nothing;
- `open_socket` checks every connection, also those to addresses written into a URL.
"""

from __future__ import annotations

import socket

from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult

from corral.base.network_errors import AddressRefusedError
from corral.outbound.addresses import is_public, read_address


class AddressPolicy:
    """Decides which addresses may be connected to; *allow_loopback* adds this machine's own, *allow_private* all."""

    def __init__(self, *, allow_private: bool, allow_loopback: bool = False) -> None:
        self.allow_private = allow_private
        self.allow_loopback = allow_loopback

    def admits(self, address: str) -> bool:
        """Whether a connection to the IP *address* is allowed; False for text that is not an address."""
        read = read_address(address)
        if read is None:
            return False
        return self.allow_private or is_public(read) or (self.allow_loopback and read.is_loopback)

    def open_socket(self, place: AddrInfoType) -> socket.socket:
        """Make the socket for one connection (aiohttp's `socket_factory`); raises AddressRefusedError."""
        family, kind, protocol, _, address = place
        if not self.admits(str(address[0])):
            raise AddressRefusedError("the address")
        return socket.socket(family, kind, protocol)


class PinnedResolver(AbstractResolver):
    """Resolves a name once for a connection, and returns the addresses the policy admits."""

    def __init__(self, policy: AddressPolicy, names: AbstractResolver) -> None:
        self._policy = policy
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The allowed addresses of *host*; raises AddressRefusedError when it has only others."""
        found = await self._names.resolve(host, port, family)
        admitted = [one for one in found if self._policy.admits(one["host"])]
        if found and not admitted:
            raise AddressRefusedError("its host name resolves to what")
        return admitted

    async def close(self) -> None:
        """Nothing to release: the resolver underneath is shared."""
