"""A burst of creates: how fast they are accepted, how soon each is ready, and what it costs at the provider."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bench import provider, requests, servers
from bench.comparison import Baseline, Comparison, Sample
from bench.environment import Environment
from bench.figures import Figure, percentile
from bench.provider import Account
from bench.requests import Accepted, Shown
from bench.servers import Served
from corral.base.clock import Clock

BOOT_SECONDS = 5.0
FIRST = 8
"""Instances created, and ready, before a burst begins."""
PROMISED = 1000
"""Creates at once for which the median of the lags has a target."""
LISTING = "list"
"""The provider's call that lists; it is counted apart, because its cost grows with pages and time, not with creates."""

ACCEPTED = Figure(name="all accepted after", unit="s")
POST_MEDIAN = Figure(name="POST median", unit="ms")
POST_P99 = Figure(name="POST p99", unit="ms", target=100)
CREATED = Figure(name="all created after", unit="s")
READY = Figure(name="all ready after the last could be", unit="s", target=4)
LAG_MEDIAN = Figure(name="lag median", unit="s", target=2.5)
LAG_P99 = Figure(name="lag p99", unit="s")
LAG_MOST = Figure(name="lag longest", unit="s")
CALLS = Figure(name="provider calls an instance", unit="", target=2.1)
PAGES = Figure(name="list pages", unit="")
TWICE = Figure(name="made or billed twice", unit="", target=0)
WHOLE = Figure(name="all ready after", unit="s")
CPU = Figure(name="CPU of service and PostgreSQL an instance", unit="ms", target=5)
FIGURES = (
    WHOLE,
    CPU,
    ACCEPTED,
    POST_MEDIAN,
    POST_P99,
    CREATED,
    READY,
    LAG_MEDIAN,
    LAG_P99,
    LAG_MOST,
    CALLS,
    PAGES,
    TWICE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """One kind of burst."""

    creates: int
    in_flight: int
    ready_within: float | None = None
    """The target of WHOLE, in seconds."""
    keyed: bool = False
    killed: bool = False
    """Whether the service is killed when half are accepted, and started again."""
    rounds: int = 1

    @property
    def title(self) -> str:
        """How it is called in the table."""
        keys = ", keys" if self.keyed else ""
        killed = ", SIGKILL" if self.killed else ""
        return f"{self.creates:,} creates, {self.in_flight} in flight{keys}{killed}"

    @property
    def work(self) -> str:
        """What happens, in a sentence."""
        keys = "each with an Idempotency-Key" if self.keyed else "without keys"
        killed = (
            " When half are accepted the service is killed and started again; a create without an answer is sent again "
            "with the same key. It waits for the heartbeats of the dead worker's jobs, so it has no target for time."
            if self.killed
            else ""
        )
        return (
            f"{self.creates:,} creates over {self.in_flight} connections, {keys}; service, PostgreSQL and simulator "
            f"(an instance runs {BOOT_SECONDS:g} s after its creation) are processes of their own on a new database, "
            f"and {FIRST} instances were made before. "
            f"Lag: from running at the simulator to ready here; one list call every 2 s sees it.{killed}"
        )

    @property
    def figures(self) -> tuple[Figure, ...]:
        """A kill costs time by design, and repeats nothing; the median of the lags was promised for a thousand."""
        free: set[Figure] = {READY, LAG_MEDIAN, POST_P99, CPU} if self.killed else set()
        if self.creates > PROMISED:
            free.add(LAG_MEDIAN)
        own = {figure: Figure(name=figure.name, unit=figure.unit) for figure in free}
        own[WHOLE] = Figure(name=WHOLE.name, unit=WHOLE.unit, target=self.ready_within)
        return tuple(own.get(figure, figure) for figure in FIGURES)


BURSTS = (
    Burst(creates=PROMISED, in_flight=32, rounds=3, ready_within=11),
    Burst(creates=1000, in_flight=50, keyed=True, rounds=3),
    Burst(creates=1000, in_flight=50, keyed=True, killed=True),
    Burst(creates=5000, in_flight=32, rounds=3, ready_within=25),
)


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """One for each kind, beside the ideal: all are created at once, and known to be ready when they run."""
    numbers = itertools.count()
    yield [
        Comparison(
            title=burst.title,
            work=burst.work,
            figures=burst.figures,
            corral=partial(_burst, environment, burst, numbers),
            baselines=(Baseline(name="ideal", side=_ideal),),
            rounds=burst.rounds,
            warm_up=False,
        )
        for burst in BURSTS
    ]


async def _ideal() -> Sample:
    return {WHOLE.name: BOOT_SECONDS, CALLS.name: 2.0}


async def _burst(environment: Environment, burst: Burst, numbers: itertools.count[int]) -> Sample:
    name = f"burst_{next(numbers)}"
    url = await environment.new_database_url(f"bench_{name}")
    directory = environment.directory / name
    async with AsyncExitStack() as stack:
        cloud = await stack.enter_async_context(
            provider.simulated(directory / "provider", environment.clock, boot_seconds=BOOT_SECONDS)
        )

        async def start(port: int | None = None) -> Served:
            return await stack.enter_async_context(
                servers.corral(
                    directory, environment.clock, port=port, DATABASE_URL=url, LOG_LEVEL="warning", **cloud.settings
                )
            )

        served = await start()
        first = await _warm(served, environment.clock)
        before, cpu_before = await cloud.calls(), served.cpu_seconds() + environment.postgresql_cpu_seconds()
        again = asyncio.create_task(asyncio.sleep(0))  # noqa: TID251  # nothing to wait for unless it is killed
        killed = asyncio.Event()

        async def restart() -> None:
            await killed.wait()
            served.kill()
            await start(served.port)

        if burst.killed:
            again = asyncio.create_task(restart())
        accepted = await requests.send(
            served.port,
            environment.clock,
            requests=burst.creates,
            in_flight=burst.in_flight,
            keyed=burst.keyed,
            on_accepted=lambda count: killed.set() if count == burst.creates // 2 else None,
        )
        await again
        within = 120 + burst.creates * 0.12
        shown = await requests.all_ready(
            served.port, environment.clock, requests=burst.creates + len(first), within=within
        )
        cpu = served.cpu_seconds() + environment.postgresql_cpu_seconds() - cpu_before
        after = await cloud.calls()
        made = {call: count - before.get(call, 0) for call, count in after.items()}
        of_burst = [instance for instance in shown if instance.provider_id not in first]
        figures = measured(accepted, of_burst, (await cloud.account()).without(first), made)
        return {**figures, CPU.name: math.nan if burst.killed else cpu / burst.creates * 1000}


async def _warm(served: Served, clock: Clock) -> set[str]:
    """Make a few, as a service has that has run for a while: it remembers the catalog, and PostgreSQL its plans."""
    await requests.send(served.port, clock, requests=FIRST, in_flight=FIRST, keyed=True)
    return {
        instance.provider_id for instance in await requests.all_ready(served.port, clock, requests=FIRST, within=60)
    }


def measured(accepted: Accepted, shown: list[Shown], account: Account, made: dict[str, int]) -> Sample:
    """The figures of one burst."""
    creates = len(shown)
    lags = [instance.ready_at - account.ran_at[instance.provider_id] for instance in shown]
    of_lags: Callable[[float], float] = partial(percentile, lags)
    apart = made.get(LISTING, 0)
    doubled = len(account.asked_at) - len({instance.provider_id for instance in shown})
    return {
        WHOLE.name: max(instance.ready_at for instance in shown) - accepted.began,
        ACCEPTED.name: accepted.seconds,
        POST_MEDIAN.name: percentile(accepted.waits, 0.5) * 1000,
        POST_P99.name: percentile(accepted.waits, 0.99) * 1000,
        CREATED.name: max(account.asked_at.values()) - accepted.began,
        READY.name: max(instance.ready_at for instance in shown) - max(account.ran_at.values()),
        LAG_MEDIAN.name: of_lags(0.5),
        LAG_P99.name: of_lags(0.99),
        LAG_MOST.name: of_lags(1),
        CALLS.name: (sum(made.values()) - apart) / creates,
        PAGES.name: float(apart),
        TWICE.name: float(max(doubled, account.billed_twice)),
    }
