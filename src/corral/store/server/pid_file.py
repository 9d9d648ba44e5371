"""
The state of a PostgreSQL server, read from the `postmaster.pid` of its cluster.

Its lines: pid, data directory, start time, port, socket directory, address, shared memory key, status.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_SOCKET_DIRECTORY: Final = 4
_STATUS: Final = 7


def server_pid(cluster: Path) -> int | None:
    """The pid of the server on *cluster*, if it runs; a recycled number that is no PostgreSQL does not count."""
    lines = _lines(cluster)
    if not lines or not lines[0].strip().lstrip("-").isdigit():
        return None
    pid = abs(int(lines[0]))
    return pid if is_running(pid) and _is_postgres(pid) else None


def is_accepting(cluster: Path) -> bool:
    """Whether the file says `ready` and the process lives."""
    lines = _lines(cluster)
    return len(lines) > _STATUS and lines[_STATUS].strip() == "ready" and server_pid(cluster) is not None


def socket_directory(cluster: Path) -> str:
    """The directory of the Unix socket of a server that is accepting connections."""
    return _lines(cluster)[_SOCKET_DIRECTORY].strip()


def is_running(pid: int) -> bool:
    """Whether a process has the number *pid*."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove(cluster: Path) -> None:
    """
    Remove the file of a server that does not run.

    It is left over from a crash. Its number may since belong to another process, and PostgreSQL, which only checks
    whether the number is in use, would then refuse to start.
    """
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def _lines(cluster: Path) -> list[str]:
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_postgres(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return not Path("/proc/self").exists()  # without /proc only the pid file can be believed
