"""Where a run takes place: a directory that is removed afterwards, and in it a PostgreSQL as the product runs it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg

from bench.machine import tree_cpu_seconds
from corral.base.clock import Clock, SystemClock
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.target import DatabaseTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What every topic is given."""

    directory: Path
    server: DatabaseTarget
    clock: Clock

    async def new_database(self, name: str) -> DatabaseTarget:
        """An empty database called *name*."""
        await self.execute(self.server, f"CREATE DATABASE {name}")
        return self.server.named(name)

    async def new_database_url(self, name: str) -> str:
        """The same, as DATABASE_URL has it."""
        target = await self.new_database(name)
        return url_of(target)

    async def execute(self, target: DatabaseTarget, statement: str) -> None:
        """Run one statement on a connection of its own."""
        connection = await asyncpg.connect(**target.arguments())
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def postgresql_cpu_seconds(self) -> float:
        """CPU time of the server and all its sessions so far; unknown where there is no /proc."""
        pid = (self.directory / "data" / "postgres" / "postmaster.pid").read_text(encoding="ascii").split()[0]
        return tree_cpu_seconds(int(pid))

    async def postgresql_version(self) -> str:
        """The release of the server."""
        connection = await asyncpg.connect(**self.server.arguments())
        try:
            return str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()


def url_of(target: DatabaseTarget) -> str:
    """The address of a database of the ground."""
    return f"postgresql://{target.user}@/{target.database}?host={quote(str(target.host), safe='')}"


@asynccontextmanager
async def laid_out() -> AsyncGenerator[Environment]:
    """A fresh ground; its server has the product's own settings, syncing to disk included."""
    directory = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    directory.chmod(0o711)  # as root, the server runs under another account that must pass through
    clock = SystemClock()
    embedded = EmbeddedServer(directory / "data", clock)
    try:
        yield Environment(directory=directory, server=await embedded.ensure(), clock=clock)
    finally:
        await embedded.stop()
        shutil.rmtree(directory, ignore_errors=True)
