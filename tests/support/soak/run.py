"""
A large fleet, a small rate limit, and a long time: memory stays flat, and no request waits for ever.

The fleet is raised as fast as it goes. Then provider and service are restarted, both with the limit, and users come
and go within what the limit allows. After a third of the time one machine vanishes, and one create call ends with an
error and without effect. With leases, users come and go once more after these were given. Judges are the simulator's
count of calls, its ledger, the event log and the memory of the service. All chance derives from one seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from bench import provider, requests, servers
from bench.environment import url_of
from bench.provider import Provider
from bench.servers import Served
from bench.wire import Line

from corral.base.clock import SystemClock
from corral.domain.lifecycle.phases import IN_MOTION
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.target import DatabaseTarget
from support.histories import invariants
from support.soak import leases
from support.soak.report import (
    Plan,
    Report,
    of_budget,
    of_lags,
    of_losses,
    of_memory,
    of_patience,
    seconds_of,
    waits,
)
from support.soak.service import all_events, all_instances, call, first_whole_windows, forget_calls, looks

CLOCK = SystemClock()
IN_FLIGHT = 32
RAISING = {"MAX_CONCURRENT_JOBS": "30"}
UNSYNCED = [("fsync", "off"), ("full_page_writes", "off")]
"""It is not the disk that is soaked, and the fleet is there sooner."""
SAMPLE_SECONDS = 2.0
SHARE_OF_USERS = 0.15
"""Creates and commands for each call of the limit: they cost two or three calls each, and listings take half."""
QUIET_SECONDS = 900.0
"""How long it may take to come to rest: two looks at ten thousand instances, each several minutes long."""


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
        self.leased: list[str] = []
        self.leased_at = float("inf")
        self.raised_at = 0.0
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
        await forget_calls(target)
        async with (
            self._up(database_url, limit=self.plan.calls_per_minute) as (served, cloud),
            Line(served.port) as line,
        ):
            self.standing = sorted(one["id"] for one in await all_instances(line))
            self.raised_at = asyncio.get_running_loop().time()
            self.wanted = dict.fromkeys(self.standing, "ready")
            await self._soak(served, line, cloud)
            if self.plan.leases:
                await self._lease(served, line, cloud, target)
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
        losses = asyncio.create_task(CLOCK.sleep(0) if self.vanished else self._lose(served.port, cloud))
        while loop.time() < ends:
            await self._sample(served, line)
            await CLOCK.sleep(SAMPLE_SECONDS)
        await asyncio.gather(users, losses)

    async def _use(self, port: int, ends: float) -> None:
        loop, pause = asyncio.get_running_loop(), 60 / (self.plan.calls_per_minute * SHARE_OF_USERS)
        while loop.time() < ends:
            what = self.dice.choices(["create", "delete", "stop", "start"], [4, 3, 2, 2])[0]
            async with self.turn, Line(port) as line:  # the service ends a connection that is idle while a turn waits
                await self._ask(line, what)
            await CLOCK.sleep(pause)

    async def _lease(self, served: Served, line: Line, cloud: Provider, target: DatabaseTarget) -> None:
        """The same with leases; at the end every machine works, so that no more are ended."""
        report, loop = self.report.leases, asyncio.get_running_loop()
        self.leased = self.standing[: self.plan.leases]
        await leases.set_loads(cloud)
        began, self.leased_at = loop.time(), CLOCK.now().timestamp()
        before = (await cloud.calls()).get("metrics", 0)
        ready_minutes = math.ceil((began - self.raised_at) / 60)
        self.report.trouble += await leases.give(served.port, self.leased, ready_minutes)
        report.given, report.given_in = len(self.leased), loop.time() - began
        given_at = loop.time()
        await self._soak(served, line, cloud)
        report.samples = (await cloud.calls()).get("metrics", 0) - before
        self.report.trouble += leases.of_share(
            report, calls_per_minute=self.plan.calls_per_minute, seconds=loop.time() - began
        )
        found = {one["id"]: one for one in await all_instances(line)}
        shown = await first_whole_windows(target, self.leased_at)
        now = CLOCK.now().timestamp()
        self.report.trouble += leases.of_ends(
            report,
            self.leased,
            found,
            self.asked_at,
            calls_per_minute=self.plan.calls_per_minute,
            seconds=loop.time() - given_at,
            measured={each: now - at for each, at in shown.items()},
        )
        await cloud.load(gpu=90, cpu=90, samples="normal")

    async def _lose(self, port: int, cloud: Provider) -> None:
        """Have one machine vanish, and one create call fail without effect, while no other create is under way."""
        await CLOCK.sleep(self.plan.seconds / 3)
        async with self.turn, Line(port) as line:
            while (await call(line, "GET", "/api/instances?limit=1&status=creating"))[1]["total"]:
                await CLOCK.sleep(SAMPLE_SECONDS)
            self.vanished = self.standing.pop(len(self.standing) // 2)
            _, shown = await call(line, "GET", f"/api/instances/{self.vanished}")
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
            status, reported = await call(line, "POST", "/api/instances", body)
            accepted = status == 201
            instance_id: str = reported.get("instanceId", "")
        else:
            engine = self.stopped if what == "start" else self.standing
            if not engine:
                return ""
            instance_id = engine.pop(self.dice.randrange(len(engine)))
            method, path = ("DELETE", "") if what == "delete" else ("POST", f"/{what}")
            status, reported = await call(line, method, f"/api/instances/{instance_id}{path}")
            accepted = status in {200, 202}  # 200: its lease stops it already
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
        _, stats = await call(line, "GET", "/api/jobs/stats")
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
        if self.leased:  # what a lease ended is known at the end only
            return await self._is_still(line)
        counts = Counter(self.wanted.values())
        for status, count in counts.items():
            _, page = await call(line, "GET", f"/api/instances?limit=1&status={status}")
            if page["total"] != count:
                return False
        return True

    async def _is_still(self, line: Line) -> bool:
        """Whether nothing is on its way, and the machine that vanished is known to be gone."""
        failed = (await call(line, "GET", "/api/instances?limit=1&status=failed"))[1]["total"]
        still = [(await call(line, "GET", f"/api/instances?limit=1&status={each}"))[1]["total"] for each in IN_MOTION]
        return failed > 0 and not any(still)

    async def _judge(self, line: Line, cloud: Provider) -> None:
        report, found, events = self.report, await all_instances(line), await all_events(line)
        calls = await cloud.traffic()
        report.busiest_minute = calls["busiest_minute"]
        report.throttled = sum(one["outcomes"].get("429", 0) for one in calls["endpoints"].values())
        report.looks = await looks(line)
        report.ends.update(one["status"] for one in found)
        report.events = len(events)
        account = await cloud.account()
        for one in found:
            if one["id"] in self.leased and (one["lease"] or {}).get("endedBy") and one["status"] == "exited":
                self.wanted[one["id"]] = "exited"
        new = [one for one in found if one["id"] in self.asked_at and one["readyAt"] is not None]
        for one in new:
            created_at = seconds_of(one["createdAt"])
            if created_at >= self.asked_at[one["id"]] - 1:
                lags = report.lags_before if self.plan.leases and created_at < self.leased_at else report.lags
                lags.append(seconds_of(one["readyAt"]) - account.ran_at[one["novitaInstanceId"]])
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
            *of_lags(report),
        ]


async def soak(place: Path, plan: Plan) -> Report:
    """Soak once, in *place*."""
    return await Soak(place, plan).go()
