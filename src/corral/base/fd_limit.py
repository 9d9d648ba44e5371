"""
The limit of open files and sockets, and how many of them callers may use.

The soft limit is often 1,024. The process raises it to the hard limit and keeps enough descriptors for itself: without
any left it could reach neither the database nor the provider.
"""

from __future__ import annotations

import resource
from typing import Final

MOST: Final = 65_536
"""More than any installation needs; some systems allow a billion."""
OURS: Final = 100
"""For the event loop, listeners, logs, the database's own files, the provider and receivers of webhooks."""
A_JOB: Final = 8
"""For each job that may run at once: its connection to the database, and the endpoints that it checks."""

A_SEND: Final = 3
"""For each webhook that may be sent at once: its connection to the database, and one or two to receivers."""


def take_all() -> int:
    """Raise the soft limit as far as allowed; returns the new limit."""
    now, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if allowed == resource.RLIM_INFINITY else min(allowed, MOST)
    if now == resource.RLIM_INFINITY or now >= wanted:
        return MOST if now == resource.RLIM_INFINITY else now
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))
    return wanted


def for_callers(handles: int, *, jobs: int, sends: int) -> int:
    """How many of *handles* may be callers' connections; where there are few, a quarter."""
    return max(handles - OURS - A_JOB * jobs - A_SEND * sends, handles // 4)
