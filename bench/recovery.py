"""What waits, and what is lost: a delete behind many creates, a killed process, a leader whose host lost power."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec

from bench import provider, requests, servers
from bench.comparison import Baseline, Comparison, Sample
from bench.environment import Environment, url_of
from bench.figures import Figure
from bench.provider import Provider
from bench.servers import Served
from bench.wire import Line

ROUNDS = 3
POLL_SECONDS = 0.05
WITHIN_SECONDS = 120.0

WAITING = 800
LIMIT = 300
STARTED = 100
"""Creates that the provider has seen before the delete: the calls at once are spent, and the rest waits."""
KILLED = 200
IN_DOUBT = 10
"""Creates that may have been under way at the kill (MAX_CONCURRENT_JOBS): their names are searched for first."""

DELETED = Figure(name="the delete is sent after", unit="s", target=2)
STOPPED = Figure(name="the stop is sent after", unit="s", target=2)
CREATED = Figure(name="all that are not in doubt are created after", unit="s", target=5)
READY = Figure(name="a create at another process is ready after", unit="s", target=30)

Measure = Callable[[Environment, str], Coroutine[Any, Any, Sample]]


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """Three, each beside the ideal."""
    numbers = itertools.count()

    async def measured(measure: Measure) -> Sample:
        return await measure(environment, f"recovery_{next(numbers)}")

    async def ideal(figures: tuple[Figure, ...], seconds: float) -> Sample:
        return {figure.name: seconds for figure in figures}

    def one(title: str, work: str, figures: tuple[Figure, ...], measure: Measure, seconds: float) -> Comparison:
        return Comparison(
            title=title,
            work=work,
            figures=figures,
            corral=partial(measured, measure),
            baselines=(Baseline(name="ideal", side=partial(ideal, figures, seconds)),),
            rounds=ROUNDS,
            warm_up=False,
        )

    yield [
        one(
            f"{WAITING} creates wait, {LIMIT} calls a minute",
            f"{WAITING} creates at a provider that admits {LIMIT} calls a minute; when it has seen {STARTED} of them, "
            "one ready machine is deleted and another stopped. The ideal: one round trip.",
            (DELETED, STOPPED),
            _behind_creates,
            0.01,
        ),
        one(
            f"SIGKILL of the only process with {KILLED} creates",
            f"{KILLED} creates are accepted, the process is killed and started again; from its first answer until all "
            f"but {IN_DOUBT} are created. The ideal: all are sent at once.",
            (CREATED,),
            _after_kill,
            0.5,
        ),
        one(
            "the leader's host is lost",
            "two processes; the one that observes the provider is frozen, and its connections to PostgreSQL carry "
            "nothing any more and stay open. From then on, until a create at the other is ready (a machine runs 1 s "
            "after its creation). The ideal: as if nothing had happened.",
            (READY,),
            _leader_lost,
            1.1,
        ),
    ]


async def _behind_creates(environment: Environment, name: str) -> Sample:
    limit = [f"--quirk=rate_limit_per_minute={LIMIT}"]
    clock, directory = environment.clock, environment.directory / name
    async with provider.simulated(directory / "provider", clock, boot_seconds=1, more=limit) as cloud:
        settings = {
            **cloud.settings,
            "NOVITA_RATE_LIMIT_PER_MINUTE": str(LIMIT),
            "DATABASE_URL": await environment.new_database_url(name),
            "LOG_LEVEL": "warning",
        }
        async with (
            servers.corral(directory, clock, port=None, role="all", **settings) as served,
            Line(served.port) as line,
        ):
            await requests.send(served.port, clock, requests=2, in_flight=1, keyed=False)
            first = await requests.all_ready(served.port, clock, requests=2, within=WITHIN_SECONDS)
            ids = [one["id"] for one in msgspec.json.decode(await served.get("/api/instances?limit=2"))["instances"]]
            await requests.send(served.port, clock, requests=WAITING, in_flight=32, keyed=False)
            while (await cloud.calls())["create"] < STARTED:
                await clock.sleep(POLL_SECONDS)
            began = time.time()
            await line.ask("DELETE", f"/api/instances/{ids[0]}")
            await line.ask("POST", f"/api/instances/{ids[1]}/stop")
            deleted, stopped = await asyncio.gather(
                *(_leaves_running(environment, cloud, one.provider_id) for one in first)
            )
    return {DELETED.name: deleted - began, STOPPED.name: stopped - began}


async def _leaves_running(environment: Environment, cloud: Provider, provider_id: str) -> float:
    """When the provider received the call that ends the run of a machine, in unix seconds."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            course = [(at, status) for at, status in await cloud.course(provider_id) if at <= time.time()]
            ran = [status for _, status in course].index("running")
            if course[ran + 1 :]:
                return course[ran + 1][0]
            await environment.clock.sleep(POLL_SECONDS)


async def _after_kill(environment: Environment, name: str) -> Sample:
    clock, directory = environment.clock, environment.directory / name
    url = await environment.new_database_url(name)
    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(provider.simulated(directory / "provider", clock, boot_seconds=5))

        async def start(port: int | None = None) -> Served:
            return await stack.enter_async_context(
                servers.corral(directory, clock, port=port, DATABASE_URL=url, LOG_LEVEL="warning", **cloud.settings)
            )

        served = await start()
        await requests.send(
            served.port,
            clock,
            requests=KILLED,
            in_flight=32,
            keyed=True,
            on_accepted=lambda count: served.kill() if count == KILLED else None,
        )
        await start(served.port)
        began = time.time()
        async with asyncio.timeout(WITHIN_SECONDS):
            while len(created := (await cloud.account()).asked_at) < KILLED - IN_DOUBT:
                await clock.sleep(POLL_SECONDS)
    return {CREATED.name: max(0.0, sorted(created.values())[KILLED - IN_DOUBT - 1] - began)}


async def _leader_lost(environment: Environment, name: str) -> Sample:
    clock, directory = environment.clock, environment.directory / name
    target = await environment.new_database(name)
    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(provider.simulated(directory / "provider", clock, boot_seconds=1))
        forwarding = asyncio.Event()
        forwarding.set()
        through = await stack.enter_async_context(_forwarded(str(target.host), forwarding))
        lost_url = f"postgresql://{target.user}@127.0.0.1:{through}/{name}?sslmode=disable"
        settings = {**cloud.settings, "LOG_LEVEL": "warning"}
        leader = await stack.enter_async_context(
            servers.corral(directory / "leader", clock, port=None, role="all", DATABASE_URL=lost_url, **settings)
        )
        stack.callback(leader.kill)  # frozen, it does not end by itself
        await requests.send(leader.port, clock, requests=1, in_flight=1, keyed=False)
        await requests.all_ready(leader.port, clock, requests=1, within=WITHIN_SECONDS)
        other = await stack.enter_async_context(
            servers.corral(directory / "other", clock, port=None, role="all", DATABASE_URL=url_of(target), **settings)
        )
        forwarding.clear()
        os.kill(leader.pid, signal.SIGSTOP)
        accepted = await requests.send(other.port, clock, requests=1, in_flight=1, keyed=False)
        shown = await requests.all_ready(other.port, clock, requests=2, within=WITHIN_SECONDS)
    return {READY.name: max(one.ready_at for one in shown) - accepted.began}


@asynccontextmanager
async def _forwarded(socket_directory: str, forwarding: asyncio.Event) -> AsyncGenerator[int]:
    """A loopback port in front of PostgreSQL that carries bytes while *forwarding* is set, and closes nothing."""
    carrying: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await forwarding.wait()
                writer.write(data)
                await writer.drain()
            await forwarding.wait()
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_unix_connection(f"{socket_directory}/.s.PGSQL.5432")
        carrying.update((asyncio.create_task(carry(reader, theirs[1])), asyncio.create_task(carry(theirs[0], writer))))

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield proxy.sockets[0].getsockname()[1]
    finally:
        proxy.close()
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
