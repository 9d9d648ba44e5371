"""Starting: how long until requests are served, and how much memory that takes."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import baselines, servers
from bench.comparison import Baseline, Comparison, Sample
from bench.environment import Environment
from bench.figures import Figure

ONE = b'{"instances":[{"id":"inst_1"}]}'

_FIRST = Figure(name="first start", unit="s")
_SECOND = Figure(name="second start", unit="s")
_MEMORY = Figure(name="memory of the service", unit="MB")


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """One comparison of three figures."""
    numbers = itertools.count()

    async def corral() -> Sample:
        directory = environment.directory / f"start-{next(numbers)}"
        first, _ = await _start_corral(directory, environment)
        second, memory = await _start_corral(directory, environment)
        return {_FIRST.name: first, _SECOND.name: second, _MEMORY.name: memory}

    async def bare() -> Sample:
        async with baselines.litestar(environment.directory / "start-bare", environment.clock, ONE) as served:
            took, memory = served.came_up_in, served.resident_megabytes()
        return {_FIRST.name: took, _SECOND.name: took, _MEMORY.name: memory}

    yield [
        Comparison(
            title="start to ready",
            work="`corral serve` in an empty directory (initdb, migrations, simulator), and again on what that left, "
            "from the start of the process to a 200 of /health/ready; resident memory of the service without "
            "PostgreSQL and simulator; beside it Litestar on uvicorn with a few routes and no database.",
            figures=(_FIRST, _SECOND, _MEMORY),
            corral=corral,
            baselines=(Baseline(name="Litestar", side=bare),),
            warm_up=False,
        )
    ]


async def _start_corral(directory: Path, environment: Environment) -> tuple[float, float]:
    """Start it once; answers seconds and megabytes."""
    async with servers.corral(directory, environment.clock) as served:
        return served.came_up_in, served.resident_megabytes()
