"""
Start `corral` by forking a process that has imported it: `python fork_server.py`, with a socket as standard input.

Each message on the socket is one byte with four descriptors: a connection, and the standard streams of a new process.
On the connection comes one line of JSON that says what to run; the id of the new process and, once it has ended, its
exit code go back, a line each. The server ends when the other end of the socket is closed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import time
from typing import Any, NoReturn

import corral
from corral.cli.main import main

LATE = ("pydantic", "typer._adapters", "rich.live", "rich.table", "pydantic.type_adapter")
"""Modules of others that commands import while they run."""


def serve() -> None:
    """Fork one process for each message."""
    for module in pkgutil.walk_packages(corral.__path__, "corral."):
        importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)
    gc.freeze()  # so that no collection writes to memory that the forked processes share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=0)
    while True:
        message, (*descriptors,), _, _ = socket.recv_fds(requests, 1, 4)
        if not message:
            return
        if os.fork() == 0:
            _run(*descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _run(connection: int, *streams: int) -> None:
    """Fork the process and report on it; returns in the forked process, when that has run its command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=connection) as caller, caller.makefile("rw") as lines:
        request = json.loads(lines.readline())
        process = os.fork()
        if process != 0:
            _report(process, streams, lines)
    _become(request, streams)


def _report(process: int, streams: tuple[int, ...], lines: Any) -> NoReturn:
    for stream in streams:
        os.close(stream)
    lines.write(f"{process}\n")
    lines.flush()
    _, status = os.waitpid(process, 0)
    lines.write(f"{os.waitstatus_to_exitcode(status)}\n")
    lines.flush()
    os._exit(0)


def _become(request: dict[str, Any], streams: tuple[int, ...]) -> None:
    """Run `corral` in this process with what a started one would have from its caller."""
    if request["new_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # open until the end, as the next ones
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()  # noqa: TID251
    os.environ.update(request["environ"])  # noqa: TID251
    time.tzset()
    sys.argv = request["arguments"]
    main()


if __name__ == "__main__":
    serve()
