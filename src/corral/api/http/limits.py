"""Limits on what one client may use, and on what all connections of one process may hold together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log

SILENT_SECONDS: Final = 10.0
"""Between two log lines about too many connections."""
SMALL_REQUEST: Final = 16 * 1024
"""A connection that holds no more than this is always served; the number of connections is limited too."""
SMALL_RESPONSE: Final = 256 * 1024
"""The same for a response that waits to be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of requests and connections; ordinary clients stay far below all of them."""

    connections: int = 10_000
    """Of all callers together; `base/fd_limit.py` computes how many this process can take."""
    headers_within_seconds: float = 10.0
    """From the connection, or the first byte of a later request, to the last header."""
    header_bytes: int = 64 * 1024
    headers: int = 100
    """Proxies and browsers send up to some forty. Fewer refuses ordinary requests; each one more costs some 300
    bytes of memory, also when it is empty."""
    idle_seconds: float = 30.0
    """How long a connection is kept after a response when no other request begins."""
    queued_requests: int = 100
    """Requests that one connection may send ahead of their responses; each is held in memory until it is answered."""
    held_bytes: int = 64 * 2**20
    """What the unanswered requests of all connections may hold in memory together."""
    unsent_bytes: int = 128 * 2**20
    """What all connections may have waiting in memory to be sent. Smaller, and clients that read long lists over slow
    lines are cut off; larger, and clients that never read take that much memory for `unsent_within_seconds`."""
    unsent_within_seconds: float = 30.0
    """How long a client may take nearly nothing of what is to be sent to it. Shorter cuts off clients on a bad line;
    longer keeps those that never read."""
    body_piece_within_seconds: float = 10.0
    """How long the next piece of a body may take to arrive."""
    body_within_seconds: float = 60.0
    """How long all of it may take: an ordinary body is a kilobyte."""
    body_bytes: int = 1024 * 1024
    first_answer_within_seconds: float = 10.0
    """How long a request waits for the response to another with the same idempotency key. Shorter, and simultaneous
    repetitions of a slow request get a 409; longer, and repetitions of one whose process died wait longer for it."""


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
