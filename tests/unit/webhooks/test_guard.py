"""Where webhooks may go, judged by the looks of the URL."""

from __future__ import annotations

import pytest
from support.clock.clocks import SteppedClock

from corral.webhooks.guard import AddressGuard

HOSTILE = [
    "http://127.0.0.1/",
    "http://127.0.0.1:3000/api/instances",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0x7f.1/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://0/",
    "http://0.0.0.0/",
    "http://00.0.0.0/",
    "http://127.0.0.1./",
    "http://127.0.0.1../",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%00.example/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]:80/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[2606:4700::1%eth0]/",
    "http://[::1].example/",
    "http://[::1",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://100.100.100.200/",
    "http://192.168.0.1/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://db.localhost/",
    "http://ⓛocalhost/",
    "http://hooks.example@127.0.0.1/",
    "http://hooks.example:80@127.0.0.1/",
    "http://127.0.0.1\\@hooks.example/",
    "http://hooks.example\\@127.0.0.1/",
    "http://hooks.example:0/",
    "http://hooks.example:99999/",
    "http://hooks.example:80:80/",
    "http://hooks .example/",
    "http://hooks.example/\r\nX-Evil: 1",
    "http://ho\tst.example/",
    "ht\ntp://hooks.example/",
    " http://hooks.example/",
    "http://hooks..example/",
    "http://.../",
    "http://-hooks.example/",
    "http://" + "a" * 64 + ".example/",
    "http://" + "a." * 130 + "example/",
    "http:127.0.0.1/",
    "http:///127.0.0.1/",
    "//hooks.example/",
    "hooks.example",
    "ftp://hooks.example/",
    "file:///etc/passwd",
    "gopher://hooks.example/",
    "unix:/run/socket",
    "javascript:alert(1)",
    "",
    "http://hooks.example/" + "x" * 2048,
]
WELCOME = [
    "http://hooks.example",
    "https://hooks.example/corral?key=1#part",
    "https://hooks.example:8443/",
    "https://hooks.example./",
    "https://HOOKS.example/",
    "https://user:password@hooks.example/",
    "https://hooks_1.example/",
    "https://bücher.example/",
    "https://1.1.1.1/",
    "https://[2606:4700:4700::1111]/",
    "http://example.com?@127.0.0.1/",
    "http://example.com#@127.0.0.1/",
    "http://receiver/",
    "http://1.1.1.1.example/",
    "http://0xcafe.example/",
]


@pytest.mark.parametrize("url", HOSTILE)
def test_a_hostile_url_is_refused(url: str) -> None:
    """In every spelling some program understands; and nothing of it is repeated."""
    fault = AddressGuard(clock=SteppedClock(), allow_private=False).fault(url)

    assert fault is not None
    assert "127" not in fault
    assert "hooks" not in fault


@pytest.mark.parametrize("url", ["x://:80", "http://[@:][@", "http://[::]1@", "a://:", "//\xff@"])
async def test_a_url_that_its_reader_trips_over_is_refused_like_any_other(url: str) -> None:
    """The caller gets a validation error, not an internal one."""
    problem = await AddressGuard(clock=SteppedClock(), allow_private=False).problem(url)

    assert problem is not None
    assert (problem.code, problem.shows_value) == ("INVALID_WEBHOOK_URL", False)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://user:s3cret@hooks.example/",
        "ftp://user#s3cret@hooks.example/",
        "ftp://a.example/s3cret",
        "ftp://a?s3cret",
        "http://127.0.0.1/s3cret/..",
    ],
)
async def test_what_may_be_secret_in_a_refused_url_is_not_repeated(url: str) -> None:
    """Also a password with a # in it, which ends the address early."""
    problem = await AddressGuard(clock=SteppedClock(), allow_private=False).problem(url)

    assert problem is not None
    assert "s3cret" not in str(problem)


async def test_a_refused_url_is_repeated_only_while_it_is_short() -> None:
    """As every wrong value is."""
    guard = AddressGuard(clock=SteppedClock(), allow_private=False)
    short, long = [await guard.problem(f"ftp://{'a' * size}.example/") for size in (20, 300)]

    assert short is not None
    assert long is not None
    assert (short.shows_value, long.shows_value, long.value) == (True, False, None)


@pytest.mark.parametrize("url", WELCOME)
def test_a_receiver_of_the_world_is_welcome(url: str) -> None:
    """Any port, any path, names of every kind; the part after @, ? or # is not the host."""
    assert AddressGuard(clock=SteppedClock(), allow_private=False).fault(url) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000/", "http://[::1]/", "http://localhost/", "http://10.1.2.3/"])
def test_an_operator_may_allow_addresses_inside(url: str) -> None:
    """For receivers on the same machine or network."""
    assert AddressGuard(clock=SteppedClock(), allow_private=True).fault(url) is None


@pytest.mark.parametrize("url", ["http://127.1/", "http://2130706433/", "ftp://10.0.0.1/", "http://[fe80::1%eth0]/"])
def test_odd_spellings_stay_refused_for_everyone(url: str) -> None:
    """They could not be connected to anyway."""
    assert AddressGuard(clock=SteppedClock(), allow_private=True).fault(url) is not None
