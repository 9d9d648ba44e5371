"""The servers that are measured from outside, as processes: `corral serve`, and any other."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from bench.machine import cpu_seconds
from bench.wire import Line
from corral.base.clock import Clock

UP_WITHIN_SECONDS = 60.0
_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that answers."""

    port: int
    pid: int
    came_up_in: float
    """Seconds from the start of the process to its first 200."""

    async def get(self, path: str) -> bytes:
        """The body of the answer to one GET, which must be 200."""
        async with Line(self.port) as line:
            status, body = await line.ask("GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path} was answered with {status}: {body[:200]!r}")
        return body

    def kill(self) -> None:
        """End it as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)

    def cpu_seconds(self) -> float:
        """CPU time the process used so far, in all its threads; unknown where there is no /proc."""
        return cpu_seconds(self.pid)

    def resident_megabytes(self) -> float:
        """Memory of the process without its children; unknown where there is no /proc."""
        return self._megabytes("VmRSS:")

    def most_megabytes(self) -> float:
        """The most memory it ever had."""
        return self._megabytes("VmHWM:")

    def _megabytes(self, name: str) -> float:
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return math.nan
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


@asynccontextmanager
async def corral(
    directory: Path, clock: Clock, *, port: int | None = None, role: str = "all", **settings: str
) -> AsyncGenerator[Served]:
    """`corral serve`, with its data in *directory*."""
    program = Path(sys.executable).with_name("corral")
    environment = {"CORRAL_DATA_DIR": str(directory / ".corral"), **settings}

    def command(port: int) -> list[str]:
        return [str(program), "serve", "--port", str(port), "--role", role]

    async with running(
        command, directory, settings=environment, port=port, path="/health/ready", clock=clock
    ) as served:
        yield served


@asynccontextmanager
async def running(
    command: Callable[[int], Sequence[str]],
    directory: Path,
    *,
    path: str,
    clock: Clock,
    settings: Mapping[str, str] | None = None,
    port: int | None = None,
) -> AsyncGenerator[Served]:
    """The server started by *command* for a port, from its first 200 of *path* on; stopped at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # noqa: TID251
    log = directory / "log"
    port = _free_port() if port is None else port
    with log.open("ab") as output:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command(port),
            cwd=directory,
            env={**inherited, **(settings or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        while not await _answers(port, path):
            if process.returncode is not None or time.perf_counter() - began > UP_WITHIN_SECONDS:
                raise RuntimeError(f"{Path(command(port)[0]).name} did not come up:\n{log.read_text()[-2000:]}")
            await clock.sleep(_POLL_SECONDS)
        yield Served(port=port, pid=process.pid, came_up_in=time.perf_counter() - began)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # killed, and not yet noticed
                process.send_signal(signal.SIGTERM)
        await process.wait()


async def _answers(port: int, path: str) -> bool:
    try:
        async with Line(port) as line:
            return (await line.ask("GET", path)).status == 200
    except (OSError, ValueError):
        return False


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
