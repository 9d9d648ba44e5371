"""
Run `corral` as a shell does, in a process that the fork server forks: `python fork_client.py ARGUMENTS…`.

It imports as little as possible: a command that imports Corral takes half a second of CPU, this one a thirtieth of it.
FORK_SERVER is the descriptor of the server's socket, FORK_COMMAND the path that the command is called by. The new
process has the streams, the working directory and the environment of this one, and this one ends as it does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Ask the server for the process, wait for its end, and end in the same way."""
    environ = dict(os.environ)  # noqa: TID251  # as inherited
    server = socket.socket(fileno=int(environ.pop("FORK_SERVER")))
    command = [environ.pop("FORK_COMMAND"), *sys.argv[1:]]
    cwd = os.getcwd()  # noqa: PTH109  # the import of pathlib takes a tenth of the time of this program
    request = {"arguments": command, "cwd": cwd, "environ": environ, "new_session": False}
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(server, [b"f"], [theirs.fileno(), 0, 1, 2])
    with ours, ours.makefile("rw") as lines:
        lines.write(json.dumps(request) + "\n")
        lines.flush()
        process = int(lines.readline())
        for number in SIGNALS:
            signal.signal(number, lambda number, _: os.kill(process, number))
        ended = int(lines.readline())
    if ended < 0:  # by a signal
        signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    sys.exit(ended)


if __name__ == "__main__":
    main()
