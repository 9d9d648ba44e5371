"""A large fleet that keeps changing, within a small rate limit: how soon a loss is noticed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from bench import provider, requests, servers
from bench.comparison import Baseline, Comparison, Sample
from bench.environment import Environment
from bench.figures import Figure
from bench.provider import Provider
from bench.servers import Served
from bench.wire import Line

INSTANCES = 10_000
LIMIT = 100
PAGE = 100
PAUSE_SECONDS = 4.0
"""Between two commands: fifteen a minute, by turns a create and a delete."""
FEW = 10
"""Created ones that are left, so that a delete is of one that is ready."""
SETTLE_SECONDS = 60.0
"""How long a create without an answer is searched for (the settle time)."""
CONFIRM_SECONDS = 30.0
"""Between the two lookups that confirm that a machine has vanished."""
WITHIN_SECONDS = 900.0
POLL_SECONDS = 0.5

VANISHED = Figure(name="a vanished machine is failed after", unit="s", target=300)
REPEATED = Figure(name="a create without effect or answer is ready after", unit="s", target=300)
FALSE = Figure(name="other machines failed", unit="", target=0)
REFUSED = Figure(name="calls refused (429)", unit="", target=0)


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """One, beside the ideal."""

    async def ideal() -> Sample:
        one_pass = INSTANCES / PAGE / LIMIT * 60
        return {
            VANISHED.name: one_pass + CONFIRM_SECONDS,
            REPEATED.name: SETTLE_SECONDS,
            FALSE.name: 1,
            REFUSED.name: 1,
        }

    yield [
        Comparison(
            title=f"{INSTANCES:,} instances that change, {LIMIT} calls a minute",
            work=f"{INSTANCES:,} instances are raised without a limit; then, at a provider that admits {LIMIT} calls a "
            f"minute, one is created or deleted every {PAUSE_SECONDS:g} s. After the list was read once, a machine in "
            "the middle vanishes, and a create call ends with 500 without effect. The ideal: the list is read by the "
            "whole limit, and two lookups confirm the loss; for the create, the settle time.",
            figures=(VANISHED, REPEATED, FALSE, REFUSED),
            corral=partial(_churn, environment),
            baselines=(Baseline(name="ideal", side=ideal),),
            rounds=1,
            warm_up=False,
        )
    ]


async def _churn(environment: Environment) -> Sample:
    clock, url = environment.clock, await environment.new_database_url("bench_churn")
    async with _up(environment, url) as (served, _):
        await requests.send(served.port, clock, requests=INSTANCES, in_flight=32, keyed=False)
        await requests.all_ready(served.port, clock, requests=INSTANCES, within=120 + INSTANCES * 0.12)
    target = environment.server.named("bench_churn")
    await environment.execute(target, "UPDATE corral_provider_budget SET state = NULL")
    async with _up(environment, url, limit=LIMIT) as (served, cloud), Line(served.port) as line:
        turn = asyncio.Lock()
        users = asyncio.create_task(_use(served.port, environment, turn))
        try:
            while (await _counted(line, "corral_looks_total"))["partial"] == 0:
                await clock.sleep(POLL_SECONDS)
            middle = (await _get(line, f"/api/instances?limit=1&offset={INSTANCES // 2}"))["instances"][0]
            name = next(one["name"] for one in await cloud.machines() if one["id"] == middle["novitaInstanceId"])
            async with turn:
                while (await _get(line, "/api/instances?limit=1&status=creating"))["total"]:
                    await clock.sleep(POLL_SECONDS)
                began = time.time()
                await cloud.harm(fault="vanish", name=name)
                await cloud.harm(fault="error_500", on="create")
                lost = await _create(line, 10 * INSTANCES)
                while await cloud.faults_left():
                    await clock.sleep(POLL_SECONDS)
                sent = time.time()
            vanished, repeated = await asyncio.gather(
                _reaches(served.port, environment, middle["id"], "failed"),
                _reaches(served.port, environment, lost, "ready"),
            )
        finally:
            users.cancel()
            await asyncio.wait([users])
        async with Line(served.port) as fresh:  # the service closed the other while nothing was asked on it
            failed = (await _get(fresh, "/api/instances?limit=1&status=failed"))["total"]
        outcomes = [one["outcomes"] for one in (await cloud.traffic())["endpoints"].values()]
        return {
            VANISHED.name: vanished - began,
            REPEATED.name: repeated - sent,
            FALSE.name: failed - 1,
            REFUSED.name: sum(counts.get("429", 0) for counts in outcomes),
        }


@asynccontextmanager
async def _up(environment: Environment, url: str, *, limit: int = 0) -> AsyncGenerator[tuple[Served, Provider]]:
    directory, clock = environment.directory / "churn", environment.clock
    more = [
        "--state",
        str(directory / "world"),
        *(f"--quirk={quirk}" for quirk in (f"rate_limit_per_minute={limit}", "remove_seconds=1")),
    ]
    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(
            provider.simulated(directory / "provider", clock, boot_seconds=1, more=more)
        )
        settings = {"DATABASE_URL": url, "LOG_LEVEL": "warning", **cloud.settings}
        settings |= {"NOVITA_RATE_LIMIT_PER_MINUTE": str(limit)} if limit else {"MAX_CONCURRENT_JOBS": "30"}
        yield (
            await stack.enter_async_context(servers.corral(directory, clock, port=None, role="all", **settings)),
            cloud,
        )


async def _use(port: int, environment: Environment, turn: asyncio.Lock) -> None:
    """Create and delete by turns, each while holding *turn*, for ever."""
    created: list[str] = []
    async with Line(port) as line:
        for number in range(INSTANCES, 10 * INSTANCES):
            async with turn:
                if number % 2 == 0 or len(created) < FEW:
                    created.append(await _create(line, number))
                else:
                    await line.ask("DELETE", f"/api/instances/{created.pop(0)}")
            await environment.clock.sleep(PAUSE_SECONDS)


async def _create(line: Line, number: int) -> str:
    answer = await line.ask("POST", "/api/instances", msgspec.json.encode(requests.create_body(number)))
    return str(msgspec.json.decode(answer.body)["instanceId"])


async def _reaches(port: int, environment: Environment, instance_id: str, status: str) -> float:
    """When the instance has *status*, in unix seconds."""
    async with Line(port) as line, asyncio.timeout(WITHIN_SECONDS):
        while (await _get(line, f"/api/instances/{instance_id}"))["status"] != status:
            await environment.clock.sleep(POLL_SECONDS)
    return time.time()


async def _get(line: Line, path: str) -> Any:
    return msgspec.json.decode((await line.ask("GET", path)).body)


async def _counted(line: Line, metric: str) -> dict[str, float]:
    """A counter with one label, by its values."""
    lines = (await line.ask("GET", "/metrics")).body.decode().splitlines()
    found = (each for each in lines if each.startswith(metric + "{"))
    return {each.split('"')[1]: float(each.rsplit(" ", 1)[1]) for each in found}
