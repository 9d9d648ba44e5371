"""
Writing log lines without ever blocking the program.

A terminal that is paused (Ctrl-S) or a log collector that hangs makes every write to standard output block, and with it
the event loop: no request, job or health check would be served. Lines therefore go through a bounded queue to a thread.
When the queue is full, lines are dropped and counted; the count is logged once there is room again.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

MOST_LINES: Final = 10_000
"""Lines that wait to be written: a few MB, a minute of a busy service. Fewer lose lines in a short pause; more take
memory while nothing reads them."""
FLUSH_SECONDS: Final = 2.0
"""How long the end of the process waits for the lines that are left; a reader that hangs must not prevent the end."""


class QueuedWriter:
    """A text stream onto *fd* that never blocks on `write`; calls *on_dropped* with the number of lines lost."""

    def __init__(self, fd: int, *, most_lines: int = MOST_LINES, on_dropped: Callable[[int], object]) -> None:
        self._fd = fd
        self._most_lines = most_lines
        self._on_dropped = on_dropped
        self._lines: deque[str] = deque()
        self._changed = threading.Condition()
        self._writing = False
        self._unreported = 0
        self._uncounted = 0
        threading.Thread(target=self._run, name="log writer", daemon=True).start()

    def write(self, text: str) -> int:
        """Queue *text*, or drop it when too much waits already."""
        with self._changed:
            if len(self._lines) < self._most_lines:
                self._lines.append(text)
                self._changed.notify_all()
            else:
                self._unreported += 1
                self._uncounted += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as fast as it can."""

    def take_dropped(self) -> int:
        """How many lines were dropped since this was last called."""
        with self._changed:
            dropped, self._uncounted = self._uncounted, 0
        return dropped

    def drain(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until everything is written, at most *seconds*; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._writing, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                text = "".join(self._lines)
                self._lines.clear()
                self._writing = True
                lost, self._unreported = self._unreported, 0
            self._write(text.encode("utf-8", "backslashreplace"))
            if lost:
                self._on_dropped(lost)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                select.select([], [self._fd], [], 1.0)
            except OSError:
                return  # closed by its reader: there is nowhere to write to
