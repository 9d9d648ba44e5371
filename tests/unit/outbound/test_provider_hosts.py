"""Which log addresses are read: the provider's own, and none that leads into our network."""

from __future__ import annotations

import pytest

from corral.outbound.provider_hosts import ProviderHosts

NOVITA = ProviderHosts("https://api.novita.ai/gpu-instance/openapi")
LOCAL = ProviderHosts("http://127.0.0.1:4000/gpu-instance/openapi")


@pytest.mark.parametrize(
    "address",
    [
        "https://novita.ai/log",
        "https://logs.us-ca-6.gpu-instance.novita.ai/i/5be2?token=x",
        "https://LOGS.novita.ai:31422/x",
        "https://logs.novita.ai./x",
    ],
)
def test_hosts_of_the_provider_are_read(address: str) -> None:
    """By https, on its port or a high one."""
    assert NOVITA.address(address) is not None


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://logs.novita.ai/x",
        "ftp://logs.novita.ai/x",
        "//logs.novita.ai/x",
        "https://evil.example/x",
        "https://novita.ai.evil.example/x",
        "https://evilnovita.ai/x",
        "https://ai/x",
        "https://user@logs.novita.ai/x",
        "https://user:pw@logs.novita.ai/x",
        "https://@logs.novita.ai/x",
        "https://logs.novita.ai@evil.example/x",
        "https://evil.example\\@logs.novita.ai/x",
        "https://evil.example#@logs.novita.ai/x",
        "https://evil.example?@logs.novita.ai/x",
        "https://logs.novita.ai:22/x",
        "https://logs.novita.ai:0/x",
        "https://logs.novita.ai:99999/x",
        "https://127.0.0.1/x",
        "https://10.0.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://2130706433/x",
        "https://localhost/x",
        "https://logs.novita.ai /x",
        "https://logs.novita.ai\n.evil.example/x",
        "https://lögs.novita.ai/x",
        "https://[::]@logs.novita.ai/",
        "https://logs.novita.ai/" + "x" * 2100,
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    """However they are spelled."""
    assert NOVITA.address(address) is None


@pytest.mark.parametrize(
    ("address", "admitted"),
    [
        ("http://127.0.0.1:4001/log", True),
        ("http://localhost:4001/log", True),
        ("http://[::1]:4001/log", True),
        ("http://10.0.0.1:4001/log", False),
        ("http://[::ffff:10.0.0.1]:4001/log", False),
        ("http://0.0.0.0:4001/log", False),
        ("https://logs.novita.ai/log", False),
        ("http://127.0.0.1.evil.example/log", False),
        ("http://user@127.0.0.1:4001/log", False),
    ],
)
def test_an_api_on_this_machine_admits_only_this_machine(address: str, *, admitted: bool) -> None:
    """As with the simulator."""
    assert (LOCAL.address(address) is not None) is admitted
    assert LOCAL.policy.admits("127.0.0.1")
    assert not NOVITA.policy.admits("127.0.0.1")
    assert not LOCAL.policy.admits("10.0.0.1")


@pytest.mark.parametrize(
    ("base_url", "address", "admitted"),
    [
        ("https://novita.co.example/x", "https://logs.novita.co.example/", True),
        ("https://novita.co.example/x", "https://other.co.example/", False),
        ("https://api.example/x", "https://evil.example/", False),
        ("https://gateway.corp.example/x", "https://db.corp.example/", False),
        ("https://api.ai/x", "https://evil.ai/", False),
    ],
)
def test_only_a_leading_api_is_taken_off_the_host(base_url: str, address: str, *, admitted: bool) -> None:
    """Without a list of public suffixes, a shorter domain could belong to anyone."""
    assert (ProviderHosts(base_url).address(address) is not None) is admitted
