"""
Users whom a proxy authenticates, and names in a header of the requests that it forwards.

The header counts only on connections from the proxy's addresses: the address of a TCP connection cannot be forged, a
header can. From the proxy, a request without a user is refused and never taken for one of this machine, so a location
that the proxy forgot to protect gives no access. A proxy must replace the header that a client sends; one that adds its
own beside it is noticed, because the header then comes twice.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from corral.base.settings.settings import ProxyLoginSettings
from corral.domain.access import Access, Caller, is_user_name
from corral.domain.budgets.announcements import CALLER
from corral.domain.errors import SettingsError, UnauthorisedError

if TYPE_CHECKING:
    from litestar.types import HTTPScope

RESERVED_NAMES: Final = frozenset({b"lease", b"local", b"unknown"})
"""What the audit log calls callers that are no users; budgets are callers too, by names that begin with `CALLER`."""
MOST_ADDRESSES: Final = 1000
"""Of peers whose answer is kept; a proxy has few, and more only cost memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLogin:
    """Reads the user of a request that the proxy forwarded."""

    header: str
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    access: Access
    _known: dict[str, bool] = field(default_factory=dict[str, bool], init=False, repr=False, compare=False)

    @classmethod
    def of(cls, settings: ProxyLoginSettings) -> Self | None:
        """What *settings* ask for; None if nothing. Raises SettingsError if only a part of it is set."""
        if settings.header is None and not settings.addresses:
            return None
        if settings.header is None:
            raise SettingsError("AUTH_PROXY_ADDRESSES is set, but AUTH_PROXY_HEADER is not: set both, or neither")
        if not settings.addresses:
            raise SettingsError(
                "AUTH_PROXY_HEADER is set, but AUTH_PROXY_ADDRESSES is not: name the addresses of the proxy, because "
                "any other client can send that header too"
            )
        networks = tuple(ipaddress.ip_network(text) for text in settings.addresses)
        return cls(header=settings.header, networks=networks, access=Access(settings.role))

    def user(self, scope: HTTPScope, address: str) -> Caller | None:
        """
        The user that the proxy names; None if the request neither comes from the proxy nor claims to.

        Raises UnauthorisedError if the header comes from elsewhere, and if the proxy names no user or an invalid one.
        """
        wanted = self.header.lower().encode()
        sent = [value for name, value in scope["headers"] if name == wanted]
        if not self._is_proxy(address):
            if not sent:
                return None
            raise UnauthorisedError(
                f"the header {self.header} is accepted from AUTH_PROXY_ADDRESSES only, and this request came from "
                "another address: send an API key instead"
            )
        if not sent:
            raise UnauthorisedError(
                f"the proxy named no user in the header {self.header}: sign in there, or send an API key as "
                "`Authorization: Bearer KEY` or `X-API-Key: KEY`"
            )
        if len(sent) > 1:
            raise UnauthorisedError(
                f"the header {self.header} was sent more than once: the proxy must replace what a client sends"
            )
        is_reserved = sent[0] in RESERVED_NAMES or sent[0].startswith(CALLER.encode())
        if not is_user_name(sent[0].decode("latin-1")) or is_reserved:
            raise UnauthorisedError(
                f"the header {self.header} does not hold a user name: 1 to 100 letters, digits and _ . @ + ~ | : \\ = -"
            )
        return Caller(name=sent[0].decode("ascii"), access=self.access, via_proxy=True)

    def _is_proxy(self, address: str) -> bool:
        known = self._known.get(address)
        if known is None:
            known = _is_in(self.networks, address)
            if len(self._known) < MOST_ADDRESSES:
                self._known[address] = known
        return known


def _is_in(networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...], address: str) -> bool:
    """Whether *address* is in one of *networks*."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)
