"""Growth: what one more instance costs, and what a fleet costs that only stands there."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from bench import provider, requests, servers
from bench.burst import LISTING
from bench.comparison import Comparison, Sample
from bench.environment import Environment
from bench.figures import Figure
from bench.provider import Provider
from bench.servers import Served

SIZES = (100, 1000, 10_000)
IN_FLIGHT = 32
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 30.0
"""As long as the interval between two looks at a fleet at rest."""

CPU = Figure(name="CPU of the service an instance", unit="ms")
CALLS = Figure(name="provider calls an instance", unit="", target=2.1)
MEMORY = Figure(name="memory of the service", unit="MB", target=170)
IDLE_CPU = Figure(name="CPU at rest", unit="%")
IDLE_CALLS = Figure(name="provider calls at rest", unit="1/min")
START = Figure(name="start to ready", unit="s")
FIGURES = (CPU, CALLS, MEMORY, IDLE_CPU, IDLE_CALLS, START)
REST_TARGETS = {1000: 1.5}
"""Per cent of one core, by size."""


class Fleet:
    """One service and its provider, which grow from comparison to comparison."""

    def __init__(self, environment: Environment, cloud: Provider, url: str, stack: AsyncExitStack) -> None:
        self._ground = environment
        self._cloud = cloud
        self._url = url
        self._stack = stack
        self._served: Served | None = None
        self._size = 0

    async def grow(self, size: int) -> Sample:
        """Bring the fleet to *size*, let it settle, and restart the service."""
        served = self._served or await self._start()
        cpu, calls = served.cpu_seconds(), await self._cloud.calls()
        more = size - self._size
        clock = self._ground.clock
        await requests.send(served.port, clock, requests=more, in_flight=IN_FLIGHT, keyed=False)
        await requests.all_ready(served.port, clock, requests=size, within=60 + more * 0.12)
        grown = growth(more, served.cpu_seconds() - cpu, calls, await self._cloud.calls())
        await clock.sleep(SETTLE_SECONDS)
        cpu, calls = served.cpu_seconds(), await self._cloud.calls()
        await clock.sleep(IDLE_SECONDS)
        rested = rest(IDLE_SECONDS, served.cpu_seconds() - cpu, calls, await self._cloud.calls())
        memory = served.resident_megabytes()
        self._size = size
        again = await self._start()
        return {**grown, **rested, MEMORY.name: memory, START.name: again.came_up_in}

    async def _start(self) -> Served:
        """Start the service, or start it again."""
        await self._stack.aclose()
        self._served = await self._stack.enter_async_context(
            servers.corral(
                self._ground.directory / "growth",
                self._ground.clock,
                port=None,
                role="all",
                DATABASE_URL=self._url,
                LOG_LEVEL="warning",
                **self._cloud.settings,
            )
        )
        return self._served


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """One for each size, in order, without baselines."""
    url = await environment.new_database_url("bench_growth")
    async with (
        provider.simulated(environment.directory / "growth-provider", environment.clock, boot_seconds=1) as cloud,
        AsyncExitStack() as stack,
    ):
        fleet = Fleet(environment, cloud, url, stack)
        yield [
            Comparison(
                title=f"{size:,} instances",
                work=f"the fleet grows to {size:,} over {IN_FLIGHT} connections until all are ready (one runs 1 s after"
                f" its creation), rests for {IDLE_SECONDS:g} s, and the service is started again; CPU and memory "
                "of the service alone, provider calls without list pages while it grows and with them at rest.",
                figures=figures(size),
                corral=partial(fleet.grow, size),
                rounds=1,
                warm_up=False,
            )
            for size in SIZES
        ]


def figures(size: int) -> tuple[Figure, ...]:
    """What is measured of a fleet of this size, with its targets."""
    return tuple(replace(f, target=REST_TARGETS.get(size)) if f is IDLE_CPU else f for f in FIGURES)


def growth(instances: int, cpu_seconds: float, before: dict[str, int], after: dict[str, int]) -> Sample:
    """What each of the new *instances* cost."""
    calls = sum(count - before.get(call, 0) for call, count in after.items() if call != LISTING)
    return {CPU.name: cpu_seconds / instances * 1000, CALLS.name: calls / instances}


def rest(seconds: float, cpu_seconds: float, before: dict[str, int], after: dict[str, int]) -> Sample:
    """What the fleet cost while nothing happened."""
    calls = sum(after.values()) - sum(before.values())
    return {IDLE_CPU.name: cpu_seconds / seconds * 100, IDLE_CALLS.name: calls / seconds * 60}
