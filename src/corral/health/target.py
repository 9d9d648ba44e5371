"""Reading an endpoint's address: a URL, possibly with a path, or `host:port` without a scheme."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit

from corral.domain.observation.sighting import Endpoint

_WELL_KNOWN_PORTS = {"http": 80, "https": 443}


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
