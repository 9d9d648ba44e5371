"""
Sends the head and body of a response in one write, and aborts connections whose client does not read.

uvicorn writes head and body one after the other, and the event loop sends each write at once: two system calls, and two
packets for the client to wake up for. Of a short answer that is about a tenth of all it costs.

A transport that is closed waits without limit until the client has taken what is left, and one whose buffer is full
waits without limit for room. `CoalescedWrites` aborts the connection when the client takes nearly nothing for a while.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Any, Final

LEAST_PROGRESS: Final = 16 * 1024
"""Bytes that a client must take between two checks, or all that is left: half a kilobyte a second by default."""

_DISCARD: Final = struct.pack("ii", 1, 0)
"""Linger for 0 s: on close unsent data is dropped and the client gets a reset."""


class CoalescedWrites:
    """A transport that joins two writes; a single one is sent at the next turn of the loop."""

    __slots__ = ("_check", "_held", "_loop", "_transport", "_unsent", "_unsent_within")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, unsent_within: float = 30.0
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None
        self._unsent_within = unsent_within
        self._unsent = 0
        self._check: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Send *data* with the write before it; does nothing once the connection is closed."""
        if self._transport.is_closing():
            self._held = None  # some event loops raise when a closed connection is written to
        elif self._held is None:
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            held, self._held = self._held, None
            self._transport.write(held + data)

    def close(self) -> None:
        """Send what is left, then close."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self.watch()

    def watch(self) -> None:
        """Abort the connection unless the client takes what is unsent, in pieces of reasonable size."""
        if self._check is None:
            self._unsent = self._transport.get_write_buffer_size()
            self._check = self._loop.call_later(self._unsent_within, self._check_progress)

    def unwatch(self) -> None:
        """Stop `watch`: there is room again, or the connection has ended."""
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def abort(self) -> None:
        """End the connection with what is unsent, also what the system holds: it would keep megabytes for minutes."""
        connected = self._transport.get_extra_info("socket")
        if connected is not None:
            with socket.socket(fileno=os.dup(connected.fileno())) as same:  # uvloop's own object has no options
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
        self._transport.abort()

    def _check_progress(self) -> None:
        self._check = None
        unsent = self._transport.get_write_buffer_size()
        if self._unsent - unsent < min(self._unsent, LEAST_PROGRESS):
            self.abort()
        elif unsent:
            self.watch()

    def _flush(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            if not self._transport.is_closing():
                self._transport.write(held)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's own."""
        return getattr(self._transport, name)
