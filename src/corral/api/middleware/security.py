"""Headers that keep a browser from using a response for something that it is not meant for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Of every response that does not set them itself, as the pages do with their own policy."""

_ENCODED: Final = tuple((name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items())
_NAMES: Final = frozenset(name for name, _ in _ENCODED)


def security_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """The security headers that are missing from *headers*, whose names are in lower case, as ASGI has them."""
    given = dict(headers)
    return _ENCODED if _NAMES.isdisjoint(given) else tuple(pair for pair in _ENCODED if pair[0] not in given)
