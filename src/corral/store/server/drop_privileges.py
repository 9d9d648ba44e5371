"""
Drops root, asks the kernel to end with the parent, and executes a program of PostgreSQL.

A program of its own, run as `python drop_privileges.py UID GID PARENT COMMAND...`, because a function between fork and
exec is unsafe once the service has threads. It imports everything before it changes the user, because the new user may
not be able to read Python's files.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Execute the command; exits with status 1 if the parent has already ended."""
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
