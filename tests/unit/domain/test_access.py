"""Keys and roles: the form of a key, and what each role may do."""

from __future__ import annotations

import hashlib
from typing import Any, cast

import pytest

from corral.api.http.context import counted_address
from corral.api.middleware.auth import Authenticator, sent_key
from corral.domain.access import KEY_BYTES, SHOWN, Access, is_key_name, key_digest, key_text


def test_each_role_may_do_what_those_below_it_may() -> None:
    """Viewer < operator < admin."""
    admitted = {(held.value, needed.value) for held in Access for needed in Access if held.admits(needed)}

    assert admitted == {
        ("viewer", "viewer"),
        ("operator", "viewer"),
        ("operator", "operator"),
        ("admin", "viewer"),
        ("admin", "operator"),
        ("admin", "admin"),
    }


def test_a_key_holds_all_its_randomness() -> None:
    """Two different random numbers never make the same key, also at the far ends."""
    ends = [bytes(KEY_BYTES), b"\xff" * KEY_BYTES, bytes(KEY_BYTES - 1) + b"\x01", b"\x01" + bytes(KEY_BYTES - 1)]
    made = [key_text(random) for random in ends]

    assert len(set(made)) == len(ends)
    assert {len(key) for key in made} == {50}
    assert all(key.startswith("corral_") and key.removeprefix("corral_").isalnum() for key in made)


def test_only_the_digest_of_a_key_is_looked_up() -> None:
    """The time of comparing digests reveals nothing about the key."""
    key = key_text(bytes(range(KEY_BYTES)))

    assert key_digest(key) == hashlib.sha256(key.encode()).digest()
    assert len(key) - SHOWN == 39


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, None),
        ({b"authorization": b"Bearer abc"}, "abc"),
        ({b"authorization": b"bearer  abc "}, "abc"),
        ({b"x-api-key": b"abc"}, "abc"),
        ({b"authorization": b"Basic dTpw"}, None),
        ({b"authorization": b"Basic dTpw", b"x-api-key": b"abc"}, "abc"),
        ({b"authorization": b"Bearer abc", b"x-api-key": b"def"}, "abc"),
        ({b"authorization": b"Bearer"}, ""),
        ({b"x-api-key": b""}, ""),
        ({b"x-api-key": b"\xff\x00"}, "\xff\x00"),
    ],
)
def test_a_key_is_read_from_either_header(headers: dict[bytes, bytes], key: str | None) -> None:
    """An empty key is a wrong key and not none."""
    assert sent_key(headers) == key


def test_one_machine_is_counted_once() -> None:
    """It has a whole IPv6 network to choose addresses from."""
    assert counted_address("203.0.113.9") == "203.0.113.9"
    assert counted_address("2001:db8:1:2::9") == counted_address("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64"
    assert counted_address("::1") == "::1"


async def test_callers_of_ipv4_are_counted_one_by_one_on_a_socket_of_ipv6() -> None:
    """Which shows them in one network of IPv6; the audit log has their addresses in the usual form."""
    authenticator = Authenticator(keys=cast("Any", None), local_only=False, allowed_origins=frozenset())
    peers = ["::ffff:203.0.113.9", "::ffff:203.0.113.10", "::FFFF:cb00:710b", "2001:db8::1", "unix"]
    found = [await authenticator.identify(cast("Any", {"client": (peer, 1)}), {}) for peer in peers]

    addresses = ["203.0.113.9", "203.0.113.10", "203.0.113.11"]
    assert [each.address for each in found] == [*addresses, "2001:db8::1", "unix"]
    assert [each.counted_as for each in found] == [*addresses, "2001:db8::/64", "unix"]


@pytest.mark.parametrize(
    ("name", "good"), [("ci", True), ("a.b@c-d_1", True), ("", False), ("a b", False), ("x" * 65, False)]
)
def test_names_are_plain(name: str, *, good: bool) -> None:
    """They are shown in tables and logs."""
    assert is_key_name(name) is good
