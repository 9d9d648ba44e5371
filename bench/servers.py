"""The servers that are measured from outside, as processes: `corral serve`, and the bare one."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from bench import bare_server
from corral.clock import Clock

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
        status, body = await _get(self.port, path)
        if status != 200:
            raise RuntimeError(f"GET {path} was answered with {status}: {body[:200]!r}")
        return body

    def cpu_seconds(self) -> float:
        """CPU time the process used so far, in all its threads; unknown where there is no /proc."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except FileNotFoundError:
            return math.nan
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        """Memory of the process without its children; unknown where there is no /proc."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return math.nan
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@asynccontextmanager
async def corral(directory: Path, clock: Clock, **settings: str) -> AsyncGenerator[Served]:
    """`corral serve`, with its data in *directory*."""
    program = Path(sys.executable).with_name("corral")
    environment = {"CORRAL_DATA_DIR": str(directory / ".corral"), **settings}
    port = _free_port()
    command = [str(program), "serve", "--port", str(port)]
    async with _running(
        command, directory, settings=environment, port=port, path="/health/ready", clock=clock
    ) as served:
        yield served


@asynccontextmanager
async def bare(directory: Path, clock: Clock, answers: Mapping[str, bytes]) -> AsyncGenerator[Served]:
    """Litestar on uvicorn, answering each path with its bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    arguments = []
    for number, (path, body) in enumerate(answers.items()):
        file = directory / f"answer-{number}"
        file.write_bytes(body)
        arguments += [path, str(file)]
    port = _free_port()
    command = [sys.executable, "-P", bare_server.__file__, str(port), *arguments]
    async with _running(command, directory, settings={}, port=port, path=next(iter(answers)), clock=clock) as served:
        yield served


@asynccontextmanager
async def _running(
    command: Sequence[str], directory: Path, *, settings: Mapping[str, str], port: int, path: str, clock: Clock
) -> AsyncGenerator[Served]:
    directory.mkdir(parents=True, exist_ok=True)
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # noqa: TID251
    log = directory / "log"
    with log.open("wb") as output:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=directory,
            env={**inherited, **settings},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        while not await _answers(port, path):
            if process.returncode is not None or time.perf_counter() - began > UP_WITHIN_SECONDS:
                raise RuntimeError(f"{Path(command[0]).name} did not come up:\n{log.read_text()[-2000:]}")
            await clock.sleep(_POLL_SECONDS)
        yield Served(port=port, pid=process.pid, came_up_in=time.perf_counter() - began)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def _answers(port: int, path: str) -> bool:
    try:
        return (await _get(port, path))[0] == 200
    except (OSError, ValueError):
        return False


async def _get(port: int, path: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return int(head[9:12]), body


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
