"""A request that is to happen once: its key, and what is kept of its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from corral.store.idempotency import Answer, KeyRow

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed(Generic[T]):
    """The idempotency key of a request, and how its outcome will be told."""

    key: str
    fingerprint: bytes
    answer_of: Callable[[T], Answer]

    def row(self, outcome: T) -> KeyRow:
        """What is to be kept."""
        return KeyRow(key=self.key, fingerprint=self.fingerprint, answer=self.answer_of(outcome))
