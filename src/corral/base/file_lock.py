"""
A lock on a file: of several processes on this machine, one owns the resource that the file names.

The kernel releases the lock when its holder dies, however it dies.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileLock:
    """A lock on the file *path*."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds the lock."""
        return self._handle is not None

    def claim(self) -> bool:
        """Take the lock unless another process holds it; returns whether this process holds it."""
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
        """Release the lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
