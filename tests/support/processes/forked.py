"""`corral` in a process that is forked from one which has imported it: the same, without half a second of imports."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

SERVER: Final = Path(__file__).with_name("fork_server.py")
CLIENT: Final = Path(__file__).with_name("fork_client.py")
NO_AUTHORITIES: Final = dict.fromkeys(["SSL_CERT_FILE", "SSL_CERT_DIR"], os.devnull)
"""As in the environment of the processes: aiohttp reads the authorities that it trusts when it is imported."""


@dataclass(kw_only=True)
class ForkedProcess:
    """A running `corral`, with the names that `asyncio.subprocess.Process` has; it is not a child of this process."""

    pid: int
    returncode: int | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        with suppress(ProcessLookupError):  # as in `subprocess`: it has ended, and that is about to be reported
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def end(self, returncode: int) -> None:
        """Note that it ended; called when the server says so."""
        self.returncode = returncode
        self._ended.set()


async def fork(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    stdin: int | None = None,
    stdout: int,
    stderr: int,
    new_session: bool = False,
) -> ForkedProcess:
    """Start a process that runs *command*, which begins with `corral`; without *stdin* it has nothing to read."""
    ours, theirs = socket.socketpair()
    with theirs, Path(os.devnull).open() as nothing:  # noqa: ASYNC230  # does not block
        streams = [nothing.fileno() if stdin is None else stdin, stdout, stderr]
        socket.send_fds(_server(), [b"f"], [theirs.fileno(), *streams])
    reader, writer = await asyncio.open_connection(sock=ours)
    request = {"arguments": command, "cwd": str(cwd), "environ": dict(environ), "new_session": new_session}
    writer.write(json.dumps(request).encode() + b"\n")
    process = ForkedProcess(pid=int(await reader.readline()))

    async def watch() -> None:
        process.end(int(await reader.readline()))
        writer.close()

    _watching.add(watching := asyncio.create_task(watch()))
    watching.add_done_callback(_watching.discard)
    return process


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """A `corral` for scripts; a shell that runs them needs *environ* and the descriptors *passed*."""

    path: Path
    environ: Mapping[str, str]
    passed: tuple[int, ...]


def shell_command(directory: Path, corral: Path) -> ShellCommand:
    """Write a `corral` into *directory* that the fork server runs in place of the installed one, *corral*."""
    path = directory / "corral"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -ISE {shlex.quote(str(CLIENT))} "$@"\n')
    path.chmod(0o755)
    server = _server().fileno()
    return ShellCommand(path=path, environ={"FORK_SERVER": str(server), "FORK_COMMAND": str(corral)}, passed=(server,))


_watching = set[asyncio.Task[None]]()
"""A loop alone does not keep its tasks."""


@asynccontextmanager
async def pipe() -> AsyncGenerator[tuple[int, asyncio.StreamReader]]:
    """The end of a pipe that a process started in this block writes to, and a reader of what it writes."""
    read, write = os.pipe()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    opened = os.fdopen(read, "rb", buffering=0)  # closed at the end of what is written
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, opened)
    try:
        yield write, reader
    finally:
        os.close(write)


@cache
def _server() -> socket.socket:
    """The connection to the server of this session, which is started at the first use."""
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, str(SERVER)], env=NO_AUTHORITIES, stdin=theirs.fileno(), start_new_session=True
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours
