"""Idempotency keys: the request that used one, and the response that its repetitions get."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response as it was sent."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """The `Idempotency-Key` of a request, and the fingerprint of the request it came with."""

    key: str
    fingerprint: bytes

    def row(self, response: StoredResponse) -> KeyRow:
        """The row that keeps *response* under this key."""
        return KeyRow(key=self.key, fingerprint=self.fingerprint, answer=response)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow(IdempotencyKey):
    """One key in use."""

    answer: StoredResponse | None
    """None while that request is being executed."""
