"""
API keys and the three access levels of callers.

A key is 256 random bits, so storing its plain SHA-256 is enough: it cannot be guessed. Lookups use the digest, so their
duration reveals nothing about a key. The key itself is shown once, when it is made, and not stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType

KeyId = NewType("KeyId", str)

KEY_BYTES: Final = 32
KEY_PREFIX: Final = "corral_"
SHOWN: Final = len(KEY_PREFIX) + 4
"""Characters of a key that are stored and shown, to distinguish keys; they do not help to guess the other 39."""

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY_DIGITS: Final = 43  # as many as 256 bits need
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_USER = re.compile(r"[A-Za-z0-9_.@+~|:\\=-]{1,100}")


class Access(StrEnum):
    """What a caller may do; each level includes the previous ones."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def admits(self, needed: Access) -> bool:
        """Whether this level includes *needed*."""
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER: Final[Sequence[Access]] = tuple(Access)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The record of a key, without the key itself."""

    id: KeyId
    name: str
    access: Access
    prefix: str
    created_at: datetime
    last_used_at: datetime | None = None
    """To within a few minutes."""
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The identity behind a request."""

    name: str
    access: Access
    key_id: KeyId | None = None
    via_proxy: bool = False
    """Whether a trusted proxy authenticated it, and named it in a header."""

    @property
    def id(self) -> str | None:
        """What distinguishes it from all other callers; None for one without a key, known by its address alone."""
        return f"user:{self.name}" if self.via_proxy else self.key_id


LOCAL: Final = Caller(name="local", access=Access.ADMIN)
"""A caller without a key on a loopback address: a person or program on this machine."""


def key_text(random: bytes) -> str:
    """The key for *random*, which has 32 bytes."""
    number, digits = int.from_bytes(random, "big"), list[str]()
    for _ in range(_KEY_DIGITS):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return KEY_PREFIX + "".join(digits)


def key_digest(key: str) -> bytes:
    """The SHA-256 of *key*, under which its record is stored."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def is_key_name(text: str) -> bool:
    """Whether *text* is a valid name for a key."""
    return _NAME.fullmatch(text) is not None


def is_user_name(text: str) -> bool:
    """
    Whether *text* is a valid name for a user of a proxy, as that of every key is.

    Without a space or comma, with which proxies join two headers; without a slash, which ends the caller's part of a
    stored idempotency key; and no longer than the filter by owner takes.
    """
    return _USER.fullmatch(text) is not None
