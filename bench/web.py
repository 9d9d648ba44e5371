"""HTTP: what our server, edge and routes cost beside the framework alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from bench import load, servers
from bench.contest import Contest, Rival, Sample
from bench.figures import Figure
from bench.ground import Ground, url_of
from bench.queues import CorralQueue
from bench.servers import Served
from corral.jobs.tables import install
from corral.store.database import Database
from corral.store.migrate import migrate
from corral.store.target import DatabaseTarget

LISTED = 100
CONNECTIONS = 32
SECONDS = 1.2
PATHS = {"GET /health/live": "/health/live", f"GET {LISTED} finished jobs": f"/api/jobs?limit={LISTED}"}

_PER_SECOND = Figure(name="requests", unit="1/s", more_is_better=True)
_CPU = Figure(name="CPU of the server a request", unit="µs")


@asynccontextmanager
async def contests(ground: Ground) -> AsyncGenerator[list[Contest]]:
    """One contest a path."""
    target = await ground.new_database("bench_web")
    await _finish_jobs(target, ground)
    async with servers.corral(ground.directory / "web", ground.clock, DATABASE_URL=url_of(target)) as corral:
        bodies = {path.partition("?")[0]: await corral.get(path) for path in PATHS.values()}
        async with servers.bare(ground.directory / "bare", ground.clock, bodies) as bare:
            yield [
                Contest(
                    title=title,
                    work=f"{CONNECTIONS} connections for {SECONDS} s, client and server in processes of their own; "
                    "bare: Litestar on uvicorn, answering the same bytes from memory.",
                    figures=(_PER_SECOND, _CPU),
                    corral=partial(_ask, corral, path),
                    rivals=(Rival(name="Litestar", side=partial(_ask, bare, path)),),
                )
                for title, path in PATHS.items()
            ]


async def _finish_jobs(target: DatabaseTarget, ground: Ground) -> None:
    """Fill a new database with finished jobs."""
    await migrate(target, first=install)
    database = await Database.connect(target, most_connections=5)
    queue = CorralQueue(database, ground)
    left = LISTED
    done = asyncio.Event()

    async def deed(_number: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()

    async with database.transaction() as connection:
        await queue.enqueue(connection, list(range(LISTED)))
    async with queue.working(deed, at_once=10):
        await done.wait()
    await database.close()


async def _ask(server: Served, path: str) -> Sample:
    cpu_before = server.cpu_seconds()
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", load.__file__),
        *(str(server.port), path, str(CONNECTIONS), str(SECONDS)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await client.communicate()
    if client.returncode != 0:
        raise RuntimeError("the client failed")
    told = msgspec.json.decode(output, type=dict[str, float])
    return {
        _PER_SECOND.name: told["answers"] / told["seconds"],
        _CPU.name: (server.cpu_seconds() - cpu_before) / told["answers"] * 1e6,
    }
