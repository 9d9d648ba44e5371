"""
Who of several processes owns a thing on this machine: the one that holds a lock on its file.

The kernel releases the lock when its holder dies, however it dies, so an owner is never a ghost.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileLock:
    """A claim to the thing behind *path*."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        """Whether the thing is ours."""
        return self._handle is not None

    def claim(self) -> bool:
        """Take it if nobody has it; True when it is ours."""
        if self._handle is None:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return False
            self._handle = handle
        return True

    def release(self) -> None:
        """Let it go."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
