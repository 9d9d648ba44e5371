"""The servers beside Corral: the same routes from memory, on Litestar alone and on Express 4."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import bare_server, servers
from bench.servers import Served
from corral.base.clock import Clock

EXPRESS = Path(__file__).with_name("express")
CACHE = Path(__file__).with_name(".cache") / "express"
"""Where Express is installed, once; git ignores it."""
INSTALL_WITHIN_SECONDS = 120


@asynccontextmanager
async def litestar(directory: Path, clock: Clock, listed: bytes) -> AsyncGenerator[Served]:
    """Litestar on uvicorn, with the instances in *listed*."""
    file = _kept(directory, listed)

    def command(port: int) -> list[str]:
        return [sys.executable, "-P", bare_server.__file__, str(port), str(file)]

    async with servers.running(command, directory, path="/health/live", clock=clock) as served:
        yield served


@asynccontextmanager
async def express(directory: Path, clock: Clock, listed: bytes) -> AsyncGenerator[Served | None]:
    """Express 4 on Node.js, with the same; None, and a line that says why, where it cannot be installed."""
    node = shutil.which("node")
    problem = "node is not installed" if node is None else await _install()
    if node is None or problem is not None:
        print(f"bench: no rows beside Express: {problem}", file=sys.stderr, flush=True)
        yield None
        return
    file = _kept(directory, listed)

    def command(port: int) -> list[str]:
        return [node, str(CACHE / "server.js"), str(port), str(file)]

    production = {"NODE_ENV": "production"}
    async with servers.running(
        command, directory, settings=production, path="/api/instances?limit=1", clock=clock
    ) as served:
        yield served


async def _install() -> str | None:
    """Install Express into the cache; returns what went wrong, or None."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "server.js"):
        shutil.copyfile(EXPRESS / name, CACHE / name)
    if (CACHE / "node_modules" / "express").is_dir():
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    try:
        process = await asyncio.create_subprocess_exec(
            *(npm, "install", "--no-audit", "--no-fund", "--no-package-lock"),
            cwd=CACHE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), INSTALL_WITHIN_SECONDS)
    except (OSError, TimeoutError) as error:
        return f"npm install failed: {error!r}"
    return None if process.returncode == 0 else f"npm install failed: {output[-200:].decode(errors='replace')}"


def _kept(directory: Path, listed: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "listed.json"
    file.write_bytes(listed)
    return file
