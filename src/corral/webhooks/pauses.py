"""
Receivers that answered 429 and said for how long: no message is sent to their address before that.

Without it, the messages of other instances to the same address would be sent meanwhile, refused as well, and use up
their attempts; chats also block clients that go on. Each process learns it by itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from corral.base.clock import Clock

TOO_MANY: Final = 429
MOST_ADDRESSES: Final = 1000
"""Addresses that are remembered at the same time; of more, the oldest is forgotten, and learned again."""


class ReceiverPauses:
    """Until when each address waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def learn(self, address: str, status: int | None, retry_after: timedelta | None) -> None:
        """Note the answer of a receiver."""
        if status != TOO_MANY or retry_after is None:
            return
        self._until.pop(address, None)
        self._until[address] = self._clock.monotonic() + retry_after.total_seconds()
        if len(self._until) > MOST_ADDRESSES:
            del self._until[next(iter(self._until))]

    def left(self, address: str) -> timedelta:
        """How long *address* still waits."""
        until = self._until.get(address)
        left = 0.0 if until is None else until - self._clock.monotonic()
        if left <= 0:
            self._until.pop(address, None)
        return timedelta(seconds=max(0.0, left))
