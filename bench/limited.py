"""Machines within a small rate limit: how soon all are ready beside the ideal, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from bench import provider, requests, servers
from bench.comparison import Baseline, Comparison, Sample
from bench.environment import Environment
from bench.figures import Figure

MACHINES = 120
LIMIT = 100
"""Calls that the provider admits in any minute."""
BOOT_SECONDS = 5.0
CALLS_A_MACHINE = 2
"""A create and a lookup."""
WITHIN_SECONDS = 600.0

READY = Figure(name="all ready after", unit="s", target=140)
CALLS = Figure(name="provider calls a machine", unit="")
PAGES = Figure(name="list pages", unit="")
REFUSED = Figure(name="calls refused (429)", unit="", target=0)
SETTINGS = {str(LIMIT): REFUSED, "auto": Figure(name=REFUSED.name, unit="", target=10)}
"""NOVITA_RATE_LIMIT_PER_MINUTE, and how many calls may be refused: to learn the limit, as many as are in flight."""


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """One for each setting of the limit, beside the ideal."""
    numbers = itertools.count()
    ideal = ideal_seconds(MACHINES, LIMIT, BOOT_SECONDS)

    async def theirs() -> Sample:
        return {READY.name: ideal, CALLS.name: CALLS_A_MACHINE, PAGES.name: 1, REFUSED.name: 1}

    yield [
        Comparison(
            title=f"{MACHINES} machines, {LIMIT} calls a minute, limit {setting}",
            work=f"{MACHINES} creates at once at a provider that admits {LIMIT} calls in any minute, and an instance "
            f"runs {BOOT_SECONDS:g} s after its creation, with NOVITA_RATE_LIMIT_PER_MINUTE={setting}, until all are "
            f"ready. The ideal: {CALLS_A_MACHINE} calls for each, whole minutes used from their first second.",
            figures=(READY, CALLS, PAGES, refused),
            corral=partial(_limited, environment, setting, numbers),
            baselines=(Baseline(name="ideal", side=theirs),),
            rounds=1,
            warm_up=False,
        )
        for setting, refused in SETTINGS.items()
    ]


def ideal_seconds(machines: int, limit: int, boot_seconds: float) -> float:
    """When the last of *machines* could be ready: its lookup is in the last minute that is needed, after its boot."""
    minutes = (machines * CALLS_A_MACHINE - 1) // limit
    return minutes * 60 + boot_seconds


async def _limited(environment: Environment, setting: str, numbers: itertools.count[int]) -> Sample:
    name = f"limited_{next(numbers)}"
    directory, clock = environment.directory / name, environment.clock
    url = await environment.new_database_url(f"bench_{name}")
    limit = [f"--quirk=rate_limit_per_minute={LIMIT}"]
    async with provider.simulated(directory / "provider", clock, boot_seconds=BOOT_SECONDS, more=limit) as cloud:
        settings = cloud.settings | {"NOVITA_RATE_LIMIT_PER_MINUTE": setting, "DATABASE_URL": url}
        async with servers.corral(directory, clock, port=None, role="all", LOG_LEVEL="warning", **settings) as served:
            accepted = await requests.send(served.port, clock, requests=MACHINES, in_flight=32, keyed=False)
            shown = await requests.all_ready(served.port, clock, requests=MACHINES, within=WITHIN_SECONDS)
        return measured(accepted.began, max(one.ready_at for one in shown), (await cloud.traffic())["endpoints"])


def measured(began: float, ready_at: float, endpoints: dict[str, dict[str, object]]) -> Sample:
    """The figures of one run; *endpoints*: the provider's count of calls."""
    totals = {name: int(str(counted["total"])) for name, counted in endpoints.items()}
    outcomes = [counted["outcomes"] for counted in endpoints.values()]
    return {
        READY.name: ready_at - began,
        CALLS.name: sum(totals.values()) / MACHINES,
        PAGES.name: totals.get("list", 0),
        REFUSED.name: sum(counts.get("429", 0) for counts in outcomes if isinstance(counts, dict)),
    }
