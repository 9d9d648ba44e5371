"""The product as a person runs it: the installed command, in a process, in an empty directory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import aiohttp

from support.database import prepared
from support.http.service import Answer
from support.processes.forked import ForkedProcess, fork, pipe

CORRAL = Path(sys.executable).with_name("corral")
SKEWED = Path(__file__).with_name("skewed_serve.py")
REFUSAL_SECONDS = 100
"""How long `corral serve` may take to refuse to start: 2 s on an idle machine. Other commands may take longer."""


def clean_environment(**settings: str) -> dict[str, str]:
    """
    This process's environment without anything that Corral would read, plus *settings*.

    No authority is trusted: nothing is called by TLS, and reading the system's takes a tenth of a command's CPU. The
    login of the person who runs the tests is not read, and the time zone is UTC.
    """
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # noqa: TID251
    nothing = {"TZ": "UTC"} | dict.fromkeys(["SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CONFIG_HOME"], os.devnull)
    return {**inherited, **nothing, **settings}


async def run(*arguments: str, cwd: Path, stdin: str | None = None, **settings: str) -> tuple[int, str, str]:
    """
    Run `corral` to its end, with *stdin* if given; returns exit code, output and errors.

    Fails at once if it is a service that starts, and after REFUSAL_SECONDS if that neither starts nor ends.
    """
    command, environ = [str(CORRAL), *arguments], clean_environment(**settings)
    async with pipe() as (out, stdout), pipe() as (err, stderr):
        with TemporaryFile() as given:
            given.write((stdin or "").encode())
            given.seek(0)
            process = await fork(command, cwd=cwd, environ=environ, stdin=given.fileno(), stdout=out, stderr=err)
    output = list[bytes]()
    errors = asyncio.create_task(stderr.read())
    try:
        async with asyncio.timeout(REFUSAL_SECONDS if "serve" in arguments else None):
            async for line in stdout:
                output.append(line)
                assert b" serves on " not in line, f"corral {' '.join(arguments)} started: {line.decode()}"
            await process.wait()
    except TimeoutError as error:
        raise AssertionError(f"corral {' '.join(arguments)} did not end within {REFUSAL_SECONDS} s") from error
    finally:
        if process.returncode is None:
            process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 5)
        if process.returncode is None:
            process.kill()
    assert process.returncode is not None
    return process.returncode, b"".join(output).decode(), (await errors).decode()


@dataclass(kw_only=True)
class Running:
    """A `corral serve` that is up."""

    process: asyncio.subprocess.Process | ForkedProcess
    address: str
    lines: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        async with (
            aiohttp.ClientSession() as client,
            client.request(method, self.address + path, **options) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(status=response.status, headers=headers, body=await response.read())

    async def is_ready(self) -> bool:
        try:
            return (await self.ask("GET", "/health/ready")).status == 200
        except aiohttp.ClientError:
            return False

    async def end(self, sent: signal.Signals = signal.SIGTERM) -> int:
        """Send *sent* and wait for the end."""
        if self.process.returncode is None:
            self.process.send_signal(sent)
        return await self.process.wait()


@asynccontextmanager
async def serving(
    data_dir: Path,
    *arguments: str,
    port: str = "--port=0",
    handles: str = "",
    ahead: str = "",
    cluster: str = "prepared",
    program: str = str(CORRAL),
    **settings: str,
) -> AsyncGenerator[Running]:
    """
    `corral serve` on a free port, from the moment it says where until the end of the block.

    It may have so many *handles* of files and sockets, if that is said; its clock is *ahead* by so many seconds. A new
    *data_dir* gets a prepared *cluster*; with "none" the service makes it, as for a user. *program* is `corral`, or
    that of another environment.
    """
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    if cluster == "prepared" and "DATABASE_URL" not in settings:
        prepared.prepare(data_dir)
    limited = () if not handles else ("sh", "-c", f'ulimit -n {handles} && exec "$@"', "sh")
    installed = (program,) if not ahead else (sys.executable, str(SKEWED), ahead)
    command = [*limited, *installed, "serve", *filter(None, (port, *arguments))]
    environ = clean_environment(CORRAL_DATA_DIR=str(data_dir), **settings)
    process: asyncio.subprocess.Process | ForkedProcess
    async with pipe() as (output, lines):
        if handles or ahead or program != str(CORRAL):
            process = await asyncio.create_subprocess_exec(
                *command, cwd=data_dir.parent, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        else:
            process = await fork(command, cwd=data_dir.parent, environ=environ, stdout=output, stderr=output)
    running = Running(process=process, address="")
    while not running.address:
        line = (await lines.readline()).decode()
        assert line, "corral ended: " + "".join(running.lines)
        running.lines.append(line)
        if " serves on " in line:
            running.address = line.split(" serves on ")[1].strip()
    reading = asyncio.create_task(_read(lines, running.lines))
    try:
        yield running
    finally:
        await running.end()
        await reading


async def quicken(data_dir: Path) -> None:
    """Make the simulated provider of a running service boot its machines at once."""
    address = (data_dir / "simulator" / "address").read_text().strip()
    phases = ("boot", "pull", "start", "stop", "restart", "remove")
    quick = {f"{phase}_seconds": "0.1" for phase in phases}
    async with aiohttp.ClientSession() as client, client.post(f"{address}/_sim/settings", json=quick) as response:
        assert response.status == 200, await response.text()


async def _read(stream: asyncio.StreamReader, lines: list[str]) -> None:
    while line := await stream.readline():
        lines.append(line.decode())
