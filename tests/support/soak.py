"""
A large fleet, a small rate limit, and a long time: memory stays flat, and no request waits for ever.

The fleet is raised as fast as it goes. Then provider and service are restarted, both with the limit, and users come
and go within what the limit allows. After a third of the time one machine vanishes, and one create call ends with an
error and without effect. Judges are the simulator's count of calls, its ledger, the event log and the
memory of the service. All chance derives from one seed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from bench import provider, requests, servers
from bench.environment import url_of
from bench.figures import percentile
from bench.provider import Provider
from bench.servers import Served
from bench.wire import Line

from corral.base.clock import SystemClock
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.target import DatabaseTarget
from support.histories import invariants

CLOCK = SystemClock()
IN_FLIGHT = 32
RAISING = {"MAX_CONCURRENT_JOBS": "30"}
UNSYNCED = [("fsync", "off"), ("full_page_writes", "off")]
"""It is not the disk that is soaked, and the fleet is there sooner."""
SAMPLE_SECONDS = 2.0
SHARE_OF_USERS = 0.15
"""Creates and commands for each call of the limit: they cost two or three calls each, and listings take half."""
MOST_GROWTH = 1.05
SLACK_MEGABYTES = 5.0
"""Memory may breathe by so much between the middle and the last third of a run; a leak grows on."""
PATIENCE_SECONDS = 300.0
"""No job that could run waits longer."""
NOTICE_SECONDS = 300.0
"""A machine that vanished, and a create without effect or answer, are noticed and dealt with in this time."""
QUIET_SECONDS = 900.0
"""How long it may take to come to rest: two looks at ten thousand instances, each several minutes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large, how long, how little."""

    instances: int
    seconds: float
    calls_per_minute: int
    seed: int


@dataclass(kw_only=True)
class Report:
    """What was seen."""

    plan: Plan
    raised_in: float = 0.0
    asked: Counter[str] = field(default_factory=Counter[str])
    memory: list[float] = field(default_factory=list[float])
    """Megabytes of the service, sample by sample."""
    oldest_job_seconds: float = 0.0
    busiest_minute: int = 0
    throttled: int = 0
    looks: Counter[str] = field(default_factory=Counter[str])
    lags: list[float] = field(default_factory=list[float])
    """Of each new instance, seconds from running at the provider to ready here."""
    waits: list[float] = field(default_factory=list[float])
    """Of each create and command, seconds from its acceptance to its effect."""
    vanished: float | None = None
    """Seconds until the machine that vanished was failed."""
    repeated: float | None = None
    """Seconds until the create whose call had no effect was ready."""
    settled_after: float = 0.0
    ends: Counter[str] = field(default_factory=Counter[str])
    events: int = 0
    trouble: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        middle, last = thirds(self.memory)
        return "\n".join(
            (
                f"{self.plan}",
                f"raised in {self.raised_in:.0f} s; asked {dict(self.asked)}; ends {dict(self.ends)}",
                f"memory, median: middle third {middle:.1f} MB, last {last:.1f} MB; most {max(self.memory):.1f} MB",
                f"provider calls, busiest minute: {self.busiest_minute}; throttled {self.throttled}",
                f"looks {dict(self.looks)}; oldest job that could run {self.oldest_job_seconds:.1f} s",
                f"readiness lag of {len(self.lags)}: {_spread(self.lags)}",
                f"asked until so, of {len(self.waits)}: {_spread(self.waits)}",
                f"seconds until the vanished machine was failed: {_shown(self.vanished)}",
                f"seconds until the create without effect was ready: {_shown(self.repeated)}",
                f"at rest after {self.settled_after:.0f} s; {self.events} events",
                f"trouble: {self.trouble}",
            )
        )


class Soak:
    """One run."""

    def __init__(self, place: Path, plan: Plan) -> None:
        self.place, self.plan, self.report = place, plan, Report(plan=plan)
        self.dice = random.Random(plan.seed)  # noqa: S311  # not for secrets
        self.wanted: dict[str, str] = {}
        """Of each instance, how it is to end."""
        self.asked_at: dict[str, float] = {}
        self.standing: list[str] = []
        self.stopped: list[str] = []
        self.turn = asyncio.Lock()
        self.vanished = ""
        self.repeated = ""

    async def go(self) -> Report:
        """Raise the fleet, soak it, let it come to rest, and judge."""
        server = EmbeddedServer(self.place / "data", CLOCK, options=UNSYNCED)
        target = await server.ensure()
        try:
            await self._go(target)
        finally:
            await server.stop()
        return self.report

    async def _go(self, target: DatabaseTarget) -> None:
        database_url = url_of(target)
        async with self._up(database_url) as (served, _):
            began = asyncio.get_running_loop().time()
            requested = self.plan.instances
            await requests.send(served.port, CLOCK, requests=requested, in_flight=IN_FLIGHT, keyed=False)
            await requests.all_ready(served.port, CLOCK, requests=requested, within=120 + requested * 0.12)
            self.report.raised_in = asyncio.get_running_loop().time() - began
        await _forget_calls(target)
        async with (
            self._up(database_url, limit=self.plan.calls_per_minute) as (served, cloud),
            Line(served.port) as line,
        ):
            self.standing = sorted(one["id"] for one in await _instances(line))
            self.wanted = dict.fromkeys(self.standing, "ready")
            await self._soak(served, line, cloud)
            await self._rest(served, line)
            await self._judge(line, cloud)

    @asynccontextmanager
    async def _up(self, database_url: str, *, limit: int = 0) -> AsyncGenerator[tuple[Served, Provider]]:
        quirks = (f"rate_limit_per_minute={limit}", "start_seconds=1", "stop_seconds=1", "remove_seconds=1")
        more = ["--state", str(self.place / "world"), *(f"--quirk={quirk}" for quirk in quirks)]
        async with AsyncExitStack() as stack:
            cloud = await stack.enter_async_context(
                provider.simulated(self.place / "provider", CLOCK, boot_seconds=1, more=more)
            )
            settings = {"DATABASE_URL": database_url, "LOG_LEVEL": "warning", **cloud.settings}
            settings |= {"NOVITA_RATE_LIMIT_PER_MINUTE": str(limit)} if limit else RAISING
            served = await stack.enter_async_context(
                servers.corral(self.place / "service", CLOCK, port=None, role="all", **settings)
            )
            yield served, cloud

    # The users.

    async def _soak(self, served: Served, line: Line, cloud: Provider) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.plan.seconds
        users = asyncio.create_task(self._use(served.port, ends))
        losses = asyncio.create_task(self._lose(served.port, cloud))
        while loop.time() < ends:
            await self._sample(served, line)
            await CLOCK.sleep(SAMPLE_SECONDS)
        await asyncio.gather(users, losses)

    async def _use(self, port: int, ends: float) -> None:
        loop, pause = asyncio.get_running_loop(), 60 / (self.plan.calls_per_minute * SHARE_OF_USERS)
        async with Line(port) as line:
            while loop.time() < ends:
                what = self.dice.choices(["create", "delete", "stop", "start"], [4, 3, 2, 2])[0]
                async with self.turn:
                    await self._ask(line, what)
                await CLOCK.sleep(pause)

    async def _lose(self, port: int, cloud: Provider) -> None:
        """Have one machine vanish, and one create call fail without effect, while no other create is under way."""
        await CLOCK.sleep(self.plan.seconds / 3)
        async with self.turn, Line(port) as line:
            while (await _call(line, "GET", "/api/instances?limit=1&status=creating"))[1]["total"]:
                await CLOCK.sleep(SAMPLE_SECONDS)
            self.vanished = self.standing.pop(len(self.standing) // 2)
            _, shown = await _call(line, "GET", f"/api/instances/{self.vanished}")
            machine = next(one for one in await cloud.machines() if one["id"] == shown["novitaInstanceId"])
            self.wanted[self.vanished], self.asked_at[self.vanished] = "failed", CLOCK.now().timestamp()
            await cloud.harm(fault="vanish", name=machine["name"])
            await cloud.harm(fault="error_500", on="create")
            self.repeated = await self._ask(line, "create")
            while await cloud.faults_left():
                await CLOCK.sleep(SAMPLE_SECONDS)

    async def _ask(self, line: Line, what: str) -> str:
        """Send one request; returns the instance's id, or nothing if there was none to ask for."""
        now = CLOCK.now().timestamp()
        if what == "create":
            body = msgspec.json.encode(requests.create_body(self.asked_created))
            status, reported = await _call(line, "POST", "/api/instances", body)
            accepted = status == 201
            instance_id: str = reported.get("instanceId", "")
        else:
            engine = self.stopped if what == "start" else self.standing
            if not engine:
                return ""
            instance_id = engine.pop(self.dice.randrange(len(engine)))
            method, path = ("DELETE", "") if what == "delete" else ("POST", f"/{what}")
            status, reported = await _call(line, method, f"/api/instances/{instance_id}{path}")
            accepted = status == 202
        if status >= 500:
            self.report.trouble.append(f"{what} {instance_id}: {reported}")
        if not accepted:
            self.report.asked[f"{what} refused"] += 1
            if what == "start":
                self.stopped.append(instance_id)
            return instance_id
        self.report.asked[what] += 1
        self.wanted[instance_id] = {"delete": "terminated", "stop": "exited"}.get(what, "ready")
        self.asked_at[instance_id] = now
        if what == "stop":
            self.stopped.append(instance_id)
        return instance_id

    @property
    def asked_created(self) -> int:
        """The number of the next create."""
        return self.plan.instances + self.report.asked["create"]

    # The judges.

    async def _sample(self, served: Served, line: Line) -> None:
        self.report.memory.append(served.resident_megabytes())
        _, stats = await _call(line, "GET", "/api/jobs/stats")
        oldest = (stats["oldestPendingAgeMs"] or 0) / 1000
        self.report.oldest_job_seconds = max(self.report.oldest_job_seconds, oldest)

    async def _rest(self, served: Served, line: Line) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS):
                while not await self._is_at_rest(line):
                    await self._sample(served, line)
                    await CLOCK.sleep(SAMPLE_SECONDS)
        self.report.settled_after = loop.time() - began

    async def _is_at_rest(self, line: Line) -> bool:
        counts = Counter(self.wanted.values())
        for status, count in counts.items():
            _, page = await _call(line, "GET", f"/api/instances?limit=1&status={status}")
            if page["total"] != count:
                return False
        return True

    async def _judge(self, line: Line, cloud: Provider) -> None:
        report, found, events = self.report, await _instances(line), await _events(line)
        calls = await cloud.traffic()
        report.busiest_minute = calls["busiest_minute"]
        report.throttled = sum(one["outcomes"].get("429", 0) for one in calls["endpoints"].values())
        report.looks = await _looks(line)
        report.ends.update(one["status"] for one in found)
        report.events = len(events)
        account = await cloud.account()
        new = [one for one in found if one["id"] in self.asked_at and one["readyAt"] is not None]
        report.lags = [
            _seconds(one["readyAt"]) - account.ran_at[one["novitaInstanceId"]]
            for one in new
            if _seconds(one["createdAt"]) >= self.asked_at[one["id"]] - 1
        ]
        took = waits(events, self.asked_at, self.wanted)
        report.vanished, report.repeated = took.pop(self.vanished, None), took.pop(self.repeated, None)
        report.waits = list(took.values())
        report.trouble += [
            *([f"{account.billed_twice} billed twice"] if account.billed_twice else []),
            *invariants.of_instances(found, await cloud.machines(), self.wanted),
            *invariants.of_log(events),
            *of_budget(report, self.plan.calls_per_minute),
            *of_memory(report.memory),
            *of_patience(report),
            *of_losses(report),
        ]


def of_budget(report: Report, limit: int) -> list[str]:
    """The provider never had more calls in a minute than it allows."""
    wrong = {
        f"{report.busiest_minute} calls in a minute, of {limit}": report.busiest_minute > limit,
        f"{report.throttled} calls were throttled": report.throttled > 0,
    }
    return [what for what, is_so in wrong.items() if is_so]


def of_memory(memory: list[float]) -> list[str]:
    """Memory is flat: the last third is no larger than the middle one."""
    middle, last = thirds(memory)
    return [f"memory grew from {middle:.1f} to {last:.1f} MB"] if last > middle * MOST_GROWTH + SLACK_MEGABYTES else []


def of_patience(report: Report) -> list[str]:
    """Nothing starves: no job waits for ever, everything asked for came to be, and nothing failed on its way."""
    asked = sum(count for what, count in report.asked.items() if "refused" not in what)
    wrong = {
        f"a job that could run waited {report.oldest_job_seconds:.0f} s": report.oldest_job_seconds > PATIENCE_SECONDS,
        f"{report.ends['failed']} failed": report.ends["failed"] > 1,  # the one that vanished
        "nothing was asked": asked == 0,
    }
    return [what for what, is_so in wrong.items() if is_so]


def of_losses(report: Report) -> list[str]:
    """The machine that vanished is noticed in time, and the create without effect is repeated."""
    took = {"the vanished machine": report.vanished, "the create without effect": report.repeated}
    return [
        f"{what}: {_shown(seconds)}" for what, seconds in took.items() if seconds is None or seconds > NOTICE_SECONDS
    ]


def thirds(samples: list[float]) -> tuple[float, float]:
    """The medians of the middle and of the last third."""
    third = len(samples) // 3
    return statistics.median(samples[third : 2 * third]), statistics.median(samples[2 * third :])


def waits(events: list[dict[str, Any]], asked_at: dict[str, float], wanted: dict[str, str]) -> dict[str, float]:
    """How long each instance took, in seconds, from when it was last asked for something until it was so."""
    took: dict[str, float] = {}
    for event in events:
        instance_id, at = event["instanceId"], _seconds(event["timestamp"])
        if (
            instance_id in asked_at
            and instance_id not in took
            and event["status"] == wanted[instance_id]
            and at >= asked_at[instance_id]
        ):
            took[instance_id] = at - asked_at[instance_id]
    return took


def _shown(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f}"


def _spread(values: list[float]) -> str:
    if not values:
        return "none"
    return "median {:.1f} s, p99 {:.1f} s, most {:.1f} s".format(*(percentile(values, at) for at in (0.5, 0.99, 1)))


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


async def _call(line: Line, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    try:
        answer = await line.ask(method, path, body)
    except ConnectionError:
        if method != "GET":
            raise
        answer = await line.ask(method, path)  # an idle connection is closed
    return answer.status, msgspec.json.decode(answer.body)


async def _instances(line: Line) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        _, page = await _call(line, "GET", f"/api/instances?limit=500&offset={len(found)}")
        found += page["instances"]
        if len(found) >= page["total"] or not page["instances"]:
            return found


async def _events(line: Line) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while page := (await _call(line, "GET", f"/api/events?limit=500&after={len(found)}"))[1]["events"]:
        found += page
    return found


async def _looks(line: Line) -> Counter[str]:
    text = (await line.ask("GET", "/metrics")).body.decode()
    lines = [one for one in text.splitlines() if one.startswith("corral_looks_total{")]
    return Counter({one.split('"')[1]: int(float(one.rsplit(" ", 1)[1])) for one in lines})


async def _forget_calls(target: DatabaseTarget) -> None:
    """The provider restarts its count, so the rate limit may too, instead of waiting for a minute."""
    connection = await asyncpg.connect(**target.arguments())
    try:
        await connection.execute("UPDATE corral_provider_budget SET state = NULL")
    finally:
        await connection.close()


async def soak(place: Path, plan: Plan) -> Report:
    """Soak once, in *place*."""
    return await Soak(place, plan).go()


def main() -> None:
    """`make soak`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--calls-per-minute", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="corral-soak-"))
    place.chmod(0o711)  # PostgreSQL runs as another account when this is run as root
    report = asyncio.run(soak(place, Plan(**vars(chosen))))
    sys.stdout.write(f"{report}\nlogs: {place}\n")
    sys.exit(1 if report.trouble else 0)


if __name__ == "__main__":
    main()
