"""HTTP: what our server, edge, checks and database cost beside the same routes from memory."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

import aiohttp
import asyncpg
import msgspec

from bench import baselines, fanout, load, provider, requests, servers
from bench.comparison import Baseline, Comparison, Sample, Side
from bench.environment import Environment
from bench.figures import Figure
from bench.requests import create_body
from bench.servers import Served
from corral.base.clock import Clock
from corral.store.session.notifications import notification
from corral.store.tables.instances import TOPIC

INSTANCES = 200
LISTED = 100
CONNECTIONS = 32
CHANGED = 100
SECONDS = 1.2
ROUNDS = 9
"""Each is short, and on a machine with two cores a single one shows little."""
FOLLOWERS = 50
EVENTS = 100
CROWD = 5000
EVENTS_TO_A_CROWD = 20
BUDGET = msgspec.json.encode({"scope": "all", "period": "total", "limitUsd": 100_000_000})
CREATE_BODY = msgspec.json.encode(create_body(0)).decode()

_CHANGE = f"""
UPDATE corral_instances AS i SET generation = i.generation + 1 WHERE i.id = $1 RETURNING {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants

_PER_SECOND = Figure(name="requests", unit="1/s", more_is_better=True)
_CPU = Figure(name="CPU of the server a request", unit="µs")
_DELIVERED = Figure(name="deliveries", unit="1/s", more_is_better=True)
_CPU_DELIVERED = Figure(name="CPU of the server a delivery", unit="µs")
_WAIT = Figure(name="longest wait for a create", unit="ms")
_MEMORY = Figure(name="memory a follower", unit="KB")
_OF_LITESTAR = 0.6


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """Reads first: the creates make the tables grow. The crowd last: it leaves its traces in a process's memory."""
    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(
            provider.simulated(environment.directory / "web-provider", environment.clock, boot_seconds=0.1)
        )
        directory = environment.directory / "web"
        url = await environment.new_database_url("bench_web")

        def serving(role: str) -> AbstractAsyncContextManager[Served]:
            return servers.corral(
                directory,
                environment.clock,
                port=None,
                role=role,
                DATABASE_URL=url,
                LOG_LEVEL="warning",
                **cloud.settings,
            )

        async with serving("all") as filling:
            await requests.send(filling.port, environment.clock, requests=INSTANCES, in_flight=8, keyed=False)
            await requests.all_ready(filling.port, environment.clock, requests=INSTANCES, within=120)
        corral = await stack.enter_async_context(serving("api"))
        listed = await corral.get(f"/api/instances?limit={INSTANCES}")
        some_id = msgspec.json.decode(listed)["instances"][0]["id"]
        litestar = await stack.enter_async_context(
            baselines.litestar(directory / "litestar", environment.clock, listed)
        )
        express = await stack.enter_async_context(baselines.express(directory / "express", environment.clock, listed))

        def comparison(title: str, request: tuple[str, ...], *, of_express: float) -> Comparison:
            return Comparison(
                title=title,
                work=f"{CONNECTIONS} connections for {SECONDS} s to `corral serve --role api`, every process its own; "
                "beside it the same routes from memory, without a database.",
                figures=(_PER_SECOND, _CPU),
                corral=partial(_ask, corral, *request),
                baselines=_baselines(
                    litestar, express, lambda server: partial(_ask, server, *request), _PER_SECOND, of_express
                ),
                rounds=ROUNDS,
            )

        yield [
            comparison("GET one instance", ("GET", f"/api/instances/{some_id}"), of_express=2),
            comparison(f"GET {LISTED} instances", ("GET", f"/api/instances?limit={LISTED}"), of_express=2),
            Comparison(
                title=f"GET {LISTED} instances while {CHANGED} change a second",
                work=f"{CONNECTIONS} connections for {SECONDS} s, while {CHANGED} of {INSTANCES} instances change each "
                "second, one by one.",
                figures=(replace(_PER_SECOND, target=1000), _CPU),
                corral=partial(_ask_under_change, corral, url, environment.clock, f"/api/instances?limit={LISTED}"),
                rounds=ROUNDS,
            ),
            Comparison(
                title=f"events to {FOLLOWERS} followers",
                work=f"{EVENTS} creates over a few connections while {FOLLOWERS} clients follow /api/events/stream, "
                "until each has every event; Corral stores each before it sends it.",
                figures=(_DELIVERED, _CPU_DELIVERED),
                corral=partial(_fan_out, corral),
                baselines=_baselines(litestar, express, lambda server: partial(_fan_out, server), None, 0),
            ),
            comparison("POST create", ("POST", "/api/instances", CREATE_BODY), of_express=0.6),
            Comparison(
                title="POST create within a budget",
                work="As before, with a budget that counts every create and is not used up; beside it the same service "
                "without a budget.",
                figures=(_PER_SECOND, _CPU),
                corral=partial(_create_within, corral, BUDGET),
                baselines=(
                    Baseline(
                        name="no budget", side=partial(_create_within, corral, None), targets={_PER_SECOND.name: 0.7}
                    ),
                ),
                rounds=ROUNDS,
            ),
            Comparison(
                title=f"events to {CROWD:,} followers",
                work=f"{EVENTS_TO_A_CROWD} creates over a few connections while {CROWD:,} clients follow, until each "
                "has every event; memory is the most the process ever had, less what it had before.",
                figures=(_DELIVERED, _CPU_DELIVERED, _WAIT, _MEMORY),
                corral=partial(_crowd, corral),
                rounds=1,
                warm_up=False,
            ),
        ]


def _baselines(
    litestar: Served,
    express: Served | None,
    side: Callable[[Served], Side],
    figure: Figure | None,
    of_express: float,
) -> tuple[Baseline, ...]:
    aims = [{} if figure is None else {figure.name: aim} for aim in (_OF_LITESTAR, of_express)]
    beside = [Baseline(name="Litestar", side=side(litestar), targets=aims[0])]
    if express is not None:
        beside.append(Baseline(name="Express", side=side(express), targets=aims[1]))
    return tuple(beside)


async def _ask(server: Served, method: str, path: str, body: str = "") -> Sample:
    arguments = (method, path, str(CONNECTIONS), str(SECONDS), *([body] if body else []))
    rate, cpu, _ = await _client(server, load.__file__, *arguments)
    return {_PER_SECOND.name: rate, _CPU.name: cpu}


async def _create_within(server: Served, budget: bytes | None) -> Sample:
    """Create with or without *budget*."""
    method, data = ("DELETE", None) if budget is None else ("PUT", budget)
    async with (
        aiohttp.ClientSession() as client,
        client.request(
            method,
            f"http://127.0.0.1:{server.port}/api/budgets/bench",
            data=data,
            headers={"content-type": "application/json"},
        ) as response,
    ):
        await response.read()
    return await _ask(server, "POST", "/api/instances", CREATE_BODY)


async def _ask_under_change(server: Served, database_url: str, clock: Clock, path: str) -> Sample:
    async with asyncio.TaskGroup() as group:
        changing = group.create_task(_change(database_url, clock))
        sample = await _ask(server, "GET", path)
        changing.cancel()
    return sample


async def _change(database_url: str, clock: Clock) -> None:
    """Change instances in turn, as any process does: a new generation, and a notification on commit."""
    connection = await asyncpg.connect(database_url)
    try:
        ids = [row["id"] for row in await connection.fetch("SELECT id FROM corral_instances ORDER BY id")]
        for instance_id in itertools.cycle(ids):
            await connection.execute(_CHANGE, instance_id)
            await clock.sleep(1 / CHANGED)
    finally:
        await connection.close()


async def _fan_out(server: Served) -> Sample:
    rate, cpu, _ = await _client(server, fanout.__file__, str(FOLLOWERS), str(EVENTS), CREATE_BODY)
    return {_DELIVERED.name: rate, _CPU_DELIVERED.name: cpu}


async def _crowd(server: Served) -> Sample:
    before = server.resident_megabytes()
    rate, cpu, reported = await _client(server, fanout.__file__, str(CROWD), str(EVENTS_TO_A_CROWD), CREATE_BODY)
    memory = (server.most_megabytes() - before) * 1024 / CROWD
    return {
        _DELIVERED.name: rate,
        _CPU_DELIVERED.name: cpu,
        _WAIT.name: reported["longest"] * 1000,
        _MEMORY.name: memory,
    }


async def _client(server: Served, program: str, *arguments: str) -> tuple[float, float, Mapping[str, float]]:
    """Run a client; returns its rate, the server's CPU in microseconds for each answer, and all its figures."""
    cpu_before = server.cpu_seconds()
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", program, str(server.port), *arguments), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await client.communicate()
    if client.returncode != 0:
        raise RuntimeError("the client failed")
    reported = msgspec.json.decode(output, type=dict[str, float])
    cpu = (server.cpu_seconds() - cpu_before) / reported["answers"] * 1e6
    return reported["answers"] / reported["seconds"], cpu, reported
