"""Addresses in settings: which are accepted, and how they are shown without what may be secret in them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit

MASK: Final = "********"
HTTP: Final = frozenset({"http", "https"})
POSTGRES: Final = frozenset({"postgresql", "postgres"})
_ORIGIN: Final = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[a-z0-9*.:\[\]_-]+")


def is_loopback(host: str) -> bool:
    """Whether *host*, a name or an address, is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_origin(text: str) -> bool:
    """Whether a browser may send *text* as an origin, or it is a pattern of such."""
    return _ORIGIN.fullmatch(text) is not None


def is_address(text: str, schemes: Collection[str] = HTTP) -> bool:
    """Whether *text* is an absolute address with one of *schemes*, a host and, if any, a possible port."""
    parts = _parts(text)
    return parts is not None and parts.scheme in schemes and bool(parts.hostname)


def is_provider_address(text: str) -> bool:
    """Whether the provider's key may be sent to *text*: encrypted, or not leaving this machine; without user info."""
    parts = _parts(text)
    if parts is None or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))


def is_database_address(text: str) -> bool:
    """Whether *text* looks like PostgreSQL's; the driver reads the rest, which may name several hosts or none."""
    return text.partition("://")[0] in POSTGRES and "://" in text and _is_clean(text)


def without_user(text: str) -> str:
    """*text* with a mask in place of user name and password."""
    scheme, separator, rest = text.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if not at:
        return MASK if "@" in text else text
    return f"{scheme}{separator}{MASK if user else ''}@{host}{slash}{path}"


def host_only(text: str) -> str:
    """*text* up to its host, with a mask for what follows: receivers of webhooks often have a token there."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    has_more = parts.path not in {"", "/"} or parts.query or parts.fragment
    return f"{parts.scheme}://{host}" + (f"/{MASK}" if has_more else parts.path)


def _parts(text: str) -> SplitResult | None:
    """The parts of *text*; None when it cannot be read, or has characters that no address has."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises when it is no port
    except ValueError:
        return None
    return parts if _is_clean(text) else None


def _is_clean(text: str) -> bool:
    return text.isprintable() and " " not in text
