"""
Which IP addresses belong to the public Internet. Pure.

`ipaddress.is_global` is not used: its result differs between Python releases, and it does not consider the IPv4 address
inside an IPv6 one.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; 0.0.0.0 reaches loopback
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT; holds a cloud's metadata service (100.100.100.200)
            "127.0.0.0/8",
            "168.63.129.16/32",  # a public address by number, but inside Azure the host's control plane
            "169.254.0.0/16",  # link-local; holds most clouds' metadata service
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments; holds a cloud's metadata service (192.0.0.192)
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays, abandoned
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

_PUBLIC_V6 = IPv6Network("2000::/3")
"""The only part of IPv6 given out so far: loopback, unique-local, link-local and multicast are all outside."""

_NOT_PUBLIC_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)

_NAT64 = IPv6Network("64:ff9b::/96")
"""How an IPv6-only network names IPv4 addresses; as public as the address inside."""


def is_public(address: Address) -> bool:
    """Whether *address* belongs to the public Internet, wherever this process runs."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    inside = _destination(address)
    if inside is not None:
        return is_public(inside)
    tunnelled = _tunnelled(address)
    return (
        address in _PUBLIC_V6
        and not any(address in network for network in _NOT_PUBLIC_V6)
        and (tunnelled is None or is_public(tunnelled))
    )


def read_address(text: str) -> Address | None:
    """The address that *text* spells in the usual form, also in brackets; None when it is something else."""
    try:
        return ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _destination(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that *address* maps to."""
    return _last_part(address) if address in _NAT64 else address.ipv4_mapped or address.sixtofour


def _tunnelled(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address in an ISATAP one (`prefix:0:5efe:a.b.c.d`), under any prefix."""
    marked = int(address) >> 32 & 0xFDFFFFFF == 0x00005EFE  # noqa: PLR2004  # the bit left out marks a global one
    return _last_part(address) if marked else None


def _last_part(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
