"""Reading the addresses of endpoints."""

from __future__ import annotations

import pytest

from corral.domain.observation.sighting import Endpoint
from corral.domain.placement.catalog import PortKind
from corral.health.probe import http_url, tcp_place


@pytest.mark.parametrize(
    ("kind", "address", "path", "url"),
    [
        ("http", "https://a-8080.example", "/", "https://a-8080.example/"),
        ("http", "https://a.example/", "/health", "https://a.example/health"),
        ("http", "https://a.example/app", "/", "https://a.example/app"),
        ("http", "https://a.example/app/", "/", "https://a.example/app/"),
        ("http", "https://a.example/app", "health", "https://a.example/app/health"),
        ("http", "https://a.example/app/", "/health/", "https://a.example/app/health/"),
        ("http", "https://a.example/app?key=1", "/health?full=1#top", "https://a.example/app/health?key=1&full=1"),
        ("http", "10.0.0.1:31000", "/", "http://10.0.0.1:31000/"),
        ("https", "a.example:8443", "/x", "https://a.example:8443/x"),
        ("http", " [::1]:80 ", "/x", "http://[::1]:80/x"),
        ("http", "http://a.example", "//evil.example/", "http://a.example/evil.example/"),
    ],
)
def test_a_path_goes_below_the_address(kind: str, address: str, path: str, url: str) -> None:
    """An endpoint may be a URL with a path of its own, or a bare host and port."""
    assert url == http_url(Endpoint(port=8080, kind=PortKind(kind), address=address), path)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("proxy.example:31422", ("proxy.example", 31422)),
        ("10.0.0.1:22", ("10.0.0.1", 22)),
        ("[2001:db8::1]:22", ("2001:db8::1", 22)),
        ("tcp://proxy.example:31422", ("proxy.example", 31422)),
        ("https://proxy.example/app", ("proxy.example", 443)),
        ("proxy.example", ("proxy.example", 2222)),
    ],
)
def test_a_tcp_address_names_a_host_and_a_port(address: str, place: tuple[str, int]) -> None:
    """The provider writes them without a scheme."""
    assert place == tcp_place(Endpoint(port=2222, kind=PortKind.TCP, address=address))


@pytest.mark.parametrize("address", ["", "   ", ":80", "http://", "[::1", "host:notaport"])
def test_an_unreadable_address_is_a_value_error(address: str) -> None:
    """The prober reports it as the provider's invalid answer."""
    with pytest.raises(ValueError, match=r"host|IPv6|port|Port"):
        tcp_place(Endpoint(port=1, kind=PortKind.TCP, address=address))
