"""
Whether a connection is used, by what passes through it.

A background ControlMaster of the user's ssh keeps its connection after the last session has ended, perhaps for ever.
Nothing says that it has no session any more; only that nothing passes but keepalives.
"""

from __future__ import annotations

from typing import Final

from corral.base.clock import Clock

LEAST_BYTES: Final = 1024
"""Between two reports of use, so that keepalives are none: of 84 bytes each way, one every eight seconds. Fewer, and
they count as use; more, and a person who types little does not."""
UNUSED_SECONDS: Final = 3600.0
"""For how long a connection counts as use after the last data. Longer, and a machine that was left is billed longer;
shorter, and one is ended while a person reads what is on the screen."""


class Traffic:
    """What passes through one connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bytes = 0
        self._used_at = clock.monotonic()

    def count(self, number: int) -> None:
        """So many bytes passed, in either direction; one of two calls at the same time may be lost, without harm."""
        self._bytes += number

    def is_used(self) -> bool:
        """Whether more than keepalives passed since the last call, or within the last hour."""
        passed, self._bytes = self._bytes, 0
        if passed >= LEAST_BYTES:
            self._used_at = self._clock.monotonic()
        return self._clock.monotonic() - self._used_at <= UNUSED_SECONDS
