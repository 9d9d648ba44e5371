"""
Sealing with AES-GCM: encrypted, and bound to the instance, so that a row copied to another instance cannot be opened.

The library is imported when a secret is first sealed or opened: most processes never do, and it takes time to load.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
"""As AES-GCM takes it. Random for each row: with one key that is safe for billions of rows."""


class UnsealError(Exception):
    """What is stored was not sealed with this key for this instance, or was changed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecrets:
    """The secrets of one instance as they are stored."""

    instance_id: str
    key_id: str
    content: bytes = field(repr=False)


class SecretKey:
    """The key. Its text shows its id only, which discloses nothing about it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.id: Final = hmac.new(key, b"corral key id", hashlib.sha256).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"SecretKey({self.id})"

    def seal(self, instance_id: str, values: Mapping[str, str]) -> SealedSecrets:
        """Encrypt *values* for the instance."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        content = self._cipher().encrypt(nonce, msgspec.json.encode(values), instance_id.encode())
        return SealedSecrets(instance_id=instance_id, key_id=self.id, content=nonce + content)

    def unseal(self, sealed: SealedSecrets) -> dict[str, str]:
        """The values in *sealed*; raises UnsealError."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # see above

        nonce, content = sealed.content[:_NONCE_BYTES], sealed.content[_NONCE_BYTES:]
        try:
            found = self._cipher().decrypt(nonce, content, sealed.instance_id.encode())
        except (InvalidTag, ValueError):  # ValueError: too short to be one
            raise UnsealError(sealed.instance_id) from None
        return msgspec.json.decode(found, type=dict[str, str])

    def digest(self, data: bytes) -> bytes:
        """A hash of *data* that cannot be computed, and so not tried with guesses, without the key."""
        return hmac.new(self._key, b"corral digest\0" + data, hashlib.sha256).digest()

    def _cipher(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # see above

        return AESGCM(self._key)
