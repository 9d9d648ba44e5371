"""
Which addresses that the provider writes may be read: those of its own hosts. Pure.

A log address comes from the provider's API, but what is behind it is read by this process and shown to users; an
address elsewhere would show what only this process can reach. So the host must be the API's, or below the domain of the
API: `api.novita.ai` admits `novita.ai` and `*.novita.ai`. An API on this machine, as the simulator is, admits only this
machine. `policy.py` checks the address that is connected to.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from yarl import URL

from corral.base import urls
from corral.outbound.policy import AddressPolicy

LONGEST_ADDRESS: Final = 2048
FIRST_FREE_PORT: Final = 1024
"""Ports below belong to other services, except that of https: a text stream on port 25 is a mail server."""
_HTTPS: Final = 443


class ProviderHosts:
    """The hosts of the provider whose API is at *base_url*."""

    def __init__(self, base_url: str) -> None:
        host = (urlsplit(base_url).hostname or "").removesuffix(".")
        self.is_local = urls.is_loopback(host)
        self.policy = AddressPolicy(allow_private=False, allow_loopback=self.is_local)
        """For the connection."""
        below = host.removeprefix("api.")
        self._domain = below if "." in below else host

    def address(self, text: str) -> URL | None:
        """*text* as an address that may be read; None if it is not one of the provider's."""
        if len(text) > LONGEST_ADDRESS or not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
            return None
        try:
            found = URL(text)
            host, port = (found.raw_host or "").lower().removesuffix("."), found.port or 0
            has_user = "@" in urlsplit(text).netloc  # by the text: yarl drops an empty user
        except (ValueError, IndexError):  # yarl raises the latter for brackets that are not around the host
            return None
        if has_user:
            return None
        if self.is_local:
            is_ours = found.scheme in urls.HTTP and urls.is_loopback(host)
        else:
            is_below = host == self._domain or host.endswith(f".{self._domain}")
            is_ours = found.scheme == "https" and is_below and (port == _HTTPS or port >= FIRST_FREE_PORT)
        return found.with_fragment(None) if is_ours else None
