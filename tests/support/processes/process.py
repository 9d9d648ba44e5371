"""The product as a person runs it: the installed command, in a process, in an empty directory."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from support.database import prepared
from support.http.service import Answer

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
    process = await asyncio.create_subprocess_exec(
        str(CORRAL),
        *arguments,
        cwd=cwd,
        env=clean_environment(**settings),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdin is not None and stdin is not None:
        process.stdin.write(stdin.encode())
        process.stdin.close()
    output = list[bytes]()
    errors = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(REFUSAL_SECONDS if "serve" in arguments else None):
            async for line in process.stdout:
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

    process: asyncio.subprocess.Process
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
    **settings: str,
) -> AsyncGenerator[Running]:
    """
    `corral serve` on a free port, from the moment it says where until the end of the block.

    It may have so many *handles* of files and sockets, if that is said; its clock is *ahead* by so many seconds. A new
    *data_dir* gets a prepared *cluster*; with "none" the service makes it, as for a user.
    """
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    if cluster == "prepared" and "DATABASE_URL" not in settings:
        prepared.prepare(data_dir)
    limited = () if not handles else ("sh", "-c", f'ulimit -n {handles} && exec "$@"', "sh")
    process = await asyncio.create_subprocess_exec(
        *limited,
        *((str(CORRAL),) if not ahead else (sys.executable, str(SKEWED), ahead)),
        "serve",
        *filter(None, (port, *arguments)),
        cwd=data_dir.parent,
        env=clean_environment(CORRAL_DATA_DIR=str(data_dir), **settings),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    running = Running(process=process, address="")
    while not running.address:
        line = (await process.stdout.readline()).decode()
        assert line, "corral ended: " + "".join(running.lines)
        running.lines.append(line)
        if " serves on " in line:
            running.address = line.split(" serves on ")[1].strip()
    reading = asyncio.create_task(_read(process.stdout, running.lines))
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
