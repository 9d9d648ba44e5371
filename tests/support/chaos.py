"""
A whole installation under attack: API and worker processes, PostgreSQL and a failing provider, killed at random.

`rampage` runs it and answers what it saw; the judges are the simulator's ledger, the event log and what receivers got.
All chance derives from one seed, which is printed; what the machine's scheduler does to it is not repeatable.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from corral.clock import SystemClock
from corral.store.embedded import EmbeddedServer
from corral.store.premises import locate
from support import verdict
from support.attacked import Process, Receiver
from support.process import clean_environment
from support.servers import unused_port

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
APIS, WORKERS = 2, 3
FAULTS = {"refuse": 0.03, "error_500": 0.02, "lost_reply": 0.02, "500_but_created": 0.02, "throttle": 0.01}
"""Together one call in ten goes wrong."""
USERS = 6
MOST_ALIVE = 60
KILL_EVERY_SECONDS = 3.0
QUIET_SECONDS = 240.0
"""How long it may take to come to rest: a lost create alone takes the settle minute and two listings."""
CLOCK = SystemClock()
WISH = {"productName": "RTX 4090 24GB", "templateId": "107672"}


@dataclass(kw_only=True)
class Report:
    """What happened."""

    seed: int
    wishes: int = 0
    errands: int = 0
    refusals: int = 0
    kills: int = 0
    restarts: int = 0
    """Of PostgreSQL."""
    events: int = 0
    deliveries: int = 0
    ends: Counter[str] = field(default_factory=Counter[str])
    settled_after: float = 0.0
    trouble: list[str] = field(default_factory=list[str])


class Rampage:
    """One run."""

    def __init__(self, place: Path, seed: int, client: aiohttp.ClientSession) -> None:
        self.place = place
        self.dice = random.Random(seed)  # noqa: S311  # not for secrets
        self.client = client
        self.report = Report(seed=seed)
        self.server = EmbeddedServer(place / "data", CLOCK)
        self.processes: list[Process] = []
        self.simulator = ""
        self.receiver = Receiver(self.dice)
        self.wanted: dict[str, str] = {}
        """Of each instance, how it is to end."""
        self.busy: set[str] = set()
        self.over = False
        self.victim: Process | None = None
        self.streamed: list[int] = []

    # The installation.

    async def build(self, stack: contextlib.AsyncExitStack) -> None:
        target = await self.server.ensure()
        stack.push_async_callback(self.server.stop)
        await self._start_simulator(stack)
        hook = await self._start_receiver(stack)
        environment = clean_environment(
            DATABASE_URL=f"postgresql://{target.user}@/{target.database}?host={target.host}",
            NOVITA_API_BASE_URL=f"{self.simulator}/gpu-instance/openapi",
            NOVITA_API_KEY="key",
            NOVITA_RATE_LIMIT_PER_MINUTE="3000",
            CORRAL_WEBHOOK_ALLOW_PRIVATE="true",
            WEBHOOK_URL=hook,
            WEBHOOK_SECRET="chaos-chaos",  # of a test
            LOG_LEVEL="info",
        )
        for number, role in enumerate(["api"] * APIS + ["worker"] * WORKERS):
            log = self.place / f"{role}-{number}.log"
            process = Process(role=role, port=unused_port(), log=log, environment=environment)
            self.processes.append(process)
            await process.start()
            stack.push_async_callback(process.end, signal.SIGTERM)
        await self._until(self._answers, 60)

    async def _start_simulator(self, stack: contextlib.AsyncExitStack) -> None:
        ready = self.place / "simulator.address"
        quirks = ("start_seconds=0.5-1", "stop_seconds=0.5-1", "restart_seconds=0.5-1", "remove_seconds=0.5-1")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "novitasim", "--port", "0", "--ready-file", str(ready), "--seed",
            str(self.report.seed), *(f"--quirk={quirk}" for quirk in quirks),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

        async def end() -> None:
            process.terminate()
            await process.wait()

        stack.push_async_callback(end)
        await self._until(lambda: _true(ready.exists() and bool(ready.read_text())), 30)
        self.simulator = ready.read_text().strip()

    async def _start_receiver(self, stack: contextlib.AsyncExitStack) -> str:
        app = web.Application()
        app.router.add_post("/", self.receiver.take)
        runner = web.AppRunner(app)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        port = unused_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{port}/"

    async def _answers(self) -> bool:
        return await self._get("/health/ready") is not None

    # The attack.

    async def go(self, seconds: float) -> None:
        for fault, probability in FAULTS.items():
            await self._sim("POST", "/_sim/fault", {"fault": fault, "count": None, "probability": probability})
        keeper = asyncio.create_task(self._supervise())
        users = [asyncio.create_task(self._user(number)) for number in range(USERS)]
        reader = asyncio.create_task(self._follow())
        await self._kill_for(seconds)
        self.over = True
        await asyncio.gather(*users)
        await self._sim("DELETE", "/_sim/fault", None)
        self.receiver.failing = False
        loop = asyncio.get_running_loop()
        began = loop.time()
        with contextlib.suppress(TimeoutError):
            await self._until(self._at_rest, QUIET_SECONDS)
        self.report.settled_after = loop.time() - began
        await self._judge()
        for task in (reader, keeper):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self.report.trouble += verdict.of_stream(self.streamed, self.report.events)

    async def _kill_for(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        restarts = [ends - seconds * 0.7, ends - seconds * 0.3]
        while loop.time() < ends:
            await CLOCK.sleep(min(KILL_EVERY_SECONDS, max(0.0, ends - loop.time())))
            if restarts and loop.time() >= restarts[0]:
                restarts.pop(0)
                await self._restart_postgresql()
            self.victim = self.dice.choice(self.processes)
            await self.victim.end(signal.SIGKILL)
            self.report.kills += 1
            await self.victim.start()
            self.victim = None

    async def _supervise(self) -> None:
        while True:
            for process in self.processes:
                if process is not self.victim:
                    await process.supervise()
            await CLOCK.sleep(0.5)

    async def _restart_postgresql(self) -> None:
        how = self.dice.choice([signal.SIGINT, signal.SIGKILL, signal.SIGQUIT])
        pid = int((locate(self.place / "data") / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, how)
        await self._until(lambda: _true(self.server.needs_attention()), 30)
        await self.server.ensure()
        self.report.restarts += 1

    # The users.

    async def _user(self, number: int) -> None:
        dice = random.Random(f"{self.report.seed}-{number}")  # noqa: S311
        turn = 0
        while not self.over:
            turn += 1
            key = f"{self.report.seed}-{number}-{turn}"
            idle = sorted(wish for wish, end in self.wanted.items() if end != "terminated" and wish not in self.busy)
            if len(idle) < MOST_ALIVE and (not idle or dice.random() < 0.5):
                await self._wish(key)
            elif idle:
                await self._errand(dice.choice(idle), dice.choice(["stop", "start", "restart", "delete"]), key)
            await CLOCK.sleep(dice.random() * 0.3)

    async def _wish(self, key: str) -> None:
        answer = await self._ask("POST", "/api/instances", key, {"name": f"w-{key}", **WISH})
        if answer is not None and answer[0] == 201:
            self.report.wishes += 1
            self.wanted[answer[1]["instanceId"]] = "ready"
        elif answer is not None:
            self.report.refusals += 1

    async def _errand(self, wish: str, verb: str, key: str) -> None:
        self.busy.add(wish)
        try:
            method, path = ("DELETE", "") if verb == "delete" else ("POST", f"/{verb}")
            answer = await self._ask(method, f"/api/instances/{wish}{path}", key, None)
            if answer is None or answer[0] != 202:
                self.report.refusals += 1
                return
            self.report.errands += 1
            self.wanted[wish] = {"delete": "terminated", "stop": "exited"}.get(verb, "ready")
        finally:
            self.busy.discard(wish)

    async def _ask(self, method: str, path: str, key: str, body: object) -> tuple[int, Any] | None:
        """Ask until there is an answer that stands, at whichever API is there: the key makes it one request."""
        for attempt in range(200):
            api = self.processes[attempt % APIS]
            try:
                async with self.client.request(
                    method, api.address + path, json=body, headers={"Idempotency-Key": key}
                ) as response:
                    told = await response.json()
                    code = told.get("error", {}).get("code")
                    running = response.status == 409 and code == "OPERATION_IN_PROGRESS" and "Idempotency" in str(told)
                    if response.status < 500 and not running:
                        return response.status, told
                    if code == "INTERNAL_SERVER_ERROR":
                        self.report.trouble.append(f"{method} {path}: {told}")
                        return None
            except (aiohttp.ClientError, TimeoutError, ValueError):
                pass
            await CLOCK.sleep(0.2)
        self.report.trouble.append(f"{method} {path} was never answered")
        return None

    async def _follow(self) -> None:
        """Read the event stream, from whichever API is there, going on where it broke off."""
        attempt = 0
        while True:
            attempt += 1
            last = str(self.streamed[-1]) if self.streamed else "0"
            try:
                async with self.client.get(
                    f"{self.processes[attempt % APIS].address}/api/events/stream",
                    headers={"Last-Event-ID": last},
                    timeout=aiohttp.ClientTimeout(total=None, sock_read=30),
                ) as response:
                    async for line in response.content:
                        if line.startswith(b"id:"):
                            self.streamed.append(int(line[3:]))
            except (aiohttp.ClientError, TimeoutError, ValueError):
                await CLOCK.sleep(0.2)

    # The judges.

    async def _at_rest(self) -> bool:
        found = await self._instances()
        if found is None or any(instance["status"] not in verdict.RESTING or instance["stale"] for instance in found):
            return False
        if any(self.wanted.get(one["id"]) == "terminated" and one["status"] != "terminated" for one in found):
            return False
        known = {one["novitaInstanceId"] for one in found if one["status"] != "terminated"}
        living = await self._machines()
        events = await self._get("/api/metrics")
        pending = 1 if events is None else events["webhooks"]["pending"]
        return all(machine["id"] in known for machine in living) and pending == 0

    async def _judge(self) -> None:
        found, events = await self._instances() or [], await self._events()
        ledger = await self._sim("GET", "/_sim/ledger", None, pattern=OURS)
        self.report.ends.update(one["status"] for one in found)
        self.report.events = len(events)
        self.report.deliveries = sum(map(len, self.receiver.got.values()))
        self.report.trouble += [
            *verdict.of_bills(ledger["at_once"]),
            *verdict.of_instances(found, await self._machines(), self.wanted),
            *verdict.of_log(events),
            *verdict.of_webhooks(events, self.receiver.got),
        ]

    # Inside.

    async def _instances(self) -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = []
        while True:
            page = await self._get(f"/api/instances?limit=500&offset={len(found)}")
            if page is None:
                return None
            found += page["instances"]
            if len(found) >= page["total"] or not page["instances"]:
                return found

    async def _events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := (await self._get(f"/api/events?limit=500&after={len(found)}") or {}).get("events"):
            found += page
        return found

    async def _machines(self) -> list[dict[str, Any]]:
        state = await self._sim("GET", "/_sim/state", None)
        return [machine for machine in state["instances"] if machine["status"] != "removed"]

    async def _get(self, path: str) -> Any:
        for api in self.processes[:APIS]:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                async with self.client.get(api.address + path) as response:
                    if response.status == 200:
                        return await response.json()
        return None

    async def _sim(self, method: str, path: str, body: object, **query: str) -> Any:
        async with self.client.request(method, self.simulator + path, json=body, params=query) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def _until(self, condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not await condition():
                await CLOCK.sleep(0.5)


async def _true(value: bool) -> bool:  # noqa: FBT001
    return value


async def rampage(place: Path, *, seconds: float, seed: int) -> Report:
    """Attack for so long, let it come to rest, and judge."""
    timeout = aiohttp.ClientTimeout(total=15)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        run = Rampage(place, seed, client)
        await run.build(stack)
        await run.go(seconds)
    return run.report


def main() -> None:
    """`make chaos`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats a run, as far as a run can be repeated")
    parser.add_argument("--runs", type=int, default=1)
    chosen = parser.parse_args()
    first = random.SystemRandom().randrange(1_000_000) if chosen.seed is None else chosen.seed
    bad = 0
    for seed in range(first, first + chosen.runs):
        place = Path(tempfile.mkdtemp(prefix="corral-chaos-"))
        place.chmod(0o711)  # PostgreSQL runs as another account when this is run as root
        report = asyncio.run(rampage(place, seconds=chosen.seconds, seed=seed))
        sys.stdout.write(f"{report}\nlogs: {place}\n")
        bad += bool(report.trouble)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
