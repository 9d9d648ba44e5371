"""
Who may call: the three levels of access, the keys that carry them, and what a key looks like.

A key is 256 random bits, so its plain SHA-256 is enough to store: there is nothing to guess, and what is looked up is
the digest, so that the time a look-up takes tells nothing about any key. The key itself is shown once, to whoever made
it, and kept nowhere.
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
"""Characters of a key that are stored and shown, to tell keys apart; the other 39 cannot be guessed from them."""

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY_DIGITS: Final = 43  # as many as 256 bits need
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


class Access(StrEnum):
    """What a caller may do; each level may do all that those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def admits(self, needed: Access) -> bool:
        """Whether this level may do what *needed* may."""
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER: Final[Sequence[Access]] = tuple(Access)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is known of a key; not the key."""

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
    """Who asks."""

    name: str
    access: Access
    key_id: KeyId | None = None


LOCAL: Final = Caller(name="local", access=Access.ADMIN)
"""Whoever asks without a key on a loopback address: a person or program on this machine."""


def key_text(random: bytes) -> str:
    """The key made of *random*, 32 bytes of it."""
    number, digits = int.from_bytes(random, "big"), list[str]()
    for _ in range(_KEY_DIGITS):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return KEY_PREFIX + "".join(digits)


def key_digest(key: str) -> bytes:
    """What is stored of *key*, and looked up."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def is_key_name(text: str) -> bool:
    """Whether a key may be called *text*."""
    return _NAME.fullmatch(text) is not None
