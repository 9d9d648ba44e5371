"""
The last step before PostgreSQL runs: drop root, ask to end with the parent, become `postgres`.

A program of its own, run as `python launch.py UID GID PARENT COMMAND...`, because the same done by a function between
fork and exec is unsafe once the service has threads. It imports everything before it changes user: as the new user,
Python's own files may be out of reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become the command; ends with status 1 if the parent is already gone."""
    uid, gid, parent, *command = arguments
    libc = ctypes.CDLL(None)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    if sys.platform == "linux":
        # SIGINT is PostgreSQL's fast shutdown. Changing user clears this request, so it comes after.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != int(parent):
        sys.exit(1)
    with contextlib.suppress(OSError):
        os.chdir("/")
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
