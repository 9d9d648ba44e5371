"""
Files and sockets: the system lets a process have only so many open, and everything we do takes some.

Often that is 1,024, unless one asks for more. We ask for what we may have, and keep enough for ourselves: callers who
took the last one would cut us off from the database and the provider.
"""

from __future__ import annotations

import resource
from typing import Final

MOST: Final = 65_536
"""More than anybody needs; some systems allow a billion."""
OURS: Final = 100
"""For the event loop, listeners, logs, the database's own files, the provider and receivers of webhooks."""
A_JOB: Final = 8
"""For each job that may run at once: its connection to the database, and the endpoints that it checks."""

A_SEND: Final = 3
"""For each webhook that may be sent at once: its connection to the database, and one or two to receivers."""


def take_all() -> int:
    """Ask for as many handles as this process may have; answers how many that are."""
    now, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if allowed == resource.RLIM_INFINITY else min(allowed, MOST)
    if now == resource.RLIM_INFINITY or now >= wanted:
        return MOST if now == resource.RLIM_INFINITY else now
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))
    return wanted


def for_callers(handles: int, *, jobs: int, sends: int) -> int:
    """How many of *handles* may be callers' connections; where there are few, a quarter."""
    return max(handles - OURS - A_JOB * jobs - A_SEND * sends, handles // 4)
