"""What all connections of one process share: how many there may be, and how much memory they may hold together."""

from __future__ import annotations

from typing import Final

from corral.api.http.limits import Limits
from corral.base.clock import Clock
from corral.base.log import log

SILENT_SECONDS: Final = 10.0
"""Between two log lines about too many connections."""
SMALL_REQUEST: Final = 16 * 1024
"""A connection that holds no more than this is always served; the number of connections is limited too."""
SMALL_RESPONSE: Final = 256 * 1024
"""The same for a response that waits to be sent."""


class MemoryLimit:
    """
    Counts what connections hold in memory together.

    A connection that holds at most *always* bytes is never refused, so those that hold much cannot keep others out.
    """

    def __init__(self, most: int, *, always: int) -> None:
        self._most = most
        self._always = always
        self.used = 0

    def change(self, before: int, after: int) -> bool:
        """Record that one connection holds *after* bytes instead of *before*; return whether it may."""
        self.used += after - before
        return after <= before or after <= self._always or self.used <= self._most


class ConnectionLimit:
    """Limits the number of connections, and logs refusals at intervals."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._most = limits.connections
        self._clock = clock
        self._silent_until = 0.0
        self.held = MemoryLimit(limits.held_bytes, always=SMALL_REQUEST)
        self.unsent = MemoryLimit(limits.unsent_bytes, always=SMALL_RESPONSE)

    def admits(self, connections: int) -> bool:
        """Whether a new connection may stay when there are this many."""
        if connections <= self._most:
            return True
        now = self._clock.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + SILENT_SECONDS
            log.warning("server.full", connections=self._most)
        return False
