"""Simulated users that create, start, stop, restart and delete, and a reader of the event stream."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import aiohttp

from support.chaos.http import Answer, Http
from support.chaos.installation import CLOCK
from support.chaos.report import Report
from support.histories.invariants import ANY

USERS = 6
MOST_ALIVE = 60
REQUEST = {"productName": "RTX 4090 24GB", "templateId": "107672"}
SILENT = "-silent"
"""Ends the name of an instance with a receiver that never answers."""
SILENT_SHARE = 0.15
PATIENCE_SECONDS = 180.0
"""How long a user asks again: the longest freeze, and a restore on a busy machine, with time to spare."""


@dataclass(kw_only=True)
class Asked:
    """What users were promised, since the database that is in use was made or restored."""

    wanted: dict[str, str] = field(default_factory=dict[str, str])
    """Of each instance, the status it is to end in, or ANY."""
    accepted_at: dict[str, float] = field(default_factory=dict[str, float])
    """When the last command of each instance was accepted, by the monotonic clock."""
    deleting: set[str] = field(default_factory=set[str])
    """Instances for which a delete was ever sent, accepted or not."""
    epoch: int = 0
    """Counts restores: what was accepted before one may be forgotten by it."""

    def accept(self, instance: str, end: str, epoch: int) -> None:
        if epoch == self.epoch:
            self.wanted[instance] = end
            self.accepted_at[instance] = CLOCK.monotonic()

    def restore(self, exported_at: float) -> None:
        """Forget what the service was asked after the export."""
        self.epoch += 1
        for instance, at in self.accepted_at.items():
            if at >= exported_at:
                self.wanted[instance] = ANY


class Users:
    """All simulated users of the service."""

    def __init__(self, http: Http, asked: Asked, report: Report, silent_url: str) -> None:
        self._http, self._asked, self._report, self._silent_url = http, asked, report, silent_url
        self._busy: set[str] = set()
        self.is_over = False

    async def work(self, number: int) -> None:
        """One user, until the attack is over."""
        dice = random.Random(f"{self._report.seed}-{number}")  # noqa: S311
        turn = 0
        while not self.is_over:
            turn += 1
            key = f"{self._report.seed}-{number}-{turn}"
            wanted = self._asked.wanted.items()
            idle = sorted(name for name, end in wanted if end != "terminated" and name not in self._busy)
            if len(idle) < MOST_ALIVE and (not idle or dice.random() < 0.5):
                await self._create(key, silent=dice.random() < SILENT_SHARE)
            elif idle:
                await self._command(dice.choice(idle), dice.choice(["stop", "start", "restart", "delete"]), key)
            await CLOCK.sleep(dice.random() * 0.3)

    async def _create(self, key: str, *, silent: bool) -> None:
        body = {**REQUEST, "name": f"r-{key}{SILENT if silent else ''}"}
        if silent:
            body["webhookUrl"] = self._silent_url
        answer, epoch = await self._ask("POST", "/api/instances", key, body)
        if answer is not None and answer.status == 201:
            self._report.requests += 1
            self._asked.accept(answer.body["instanceId"], "ready", epoch)
        elif answer is not None:
            self._report.refusals += 1

    async def _command(self, instance: str, verb: str, key: str) -> None:
        self._busy.add(instance)
        try:
            method, path = ("DELETE", "") if verb == "delete" else ("POST", f"/{verb}")
            if verb == "delete":
                self._asked.deleting.add(instance)
            answer, epoch = await self._ask(method, f"/api/instances/{instance}{path}", key, None)
            if answer is not None and answer.status == 404 and self._asked.epoch:
                self._asked.wanted.pop(instance, None)  # accepted after the export that was restored
            if answer is None or answer.status not in {200, 202}:
                self._report.refusals += 1
                return
            self._report.commands += 1
            self._asked.accept(instance, {"delete": "terminated", "stop": "exited"}.get(verb, "ready"), epoch)
        finally:
            self._busy.discard(instance)

    async def _ask(self, method: str, path: str, key: str, body: object) -> tuple[Answer | None, int]:
        """Ask until there is a final answer, at whichever API is there: the key makes it one request."""
        gives_up_at, attempt = CLOCK.monotonic() + PATIENCE_SECONDS, 0
        while CLOCK.monotonic() < gives_up_at:
            epoch = self._asked.epoch
            answer = await self._http.send(attempt, method, path, key, body)
            attempt += 1
            if answer is not None and answer.is_final:
                return answer, epoch
            if answer is not None and answer.code == "INTERNAL_SERVER_ERROR":
                self._report.trouble.append(f"{method} {path}: {answer.body}")
                return None, epoch
            await CLOCK.sleep(0.2)
        self._report.trouble.append(f"{method} {path} was not answered within {PATIENCE_SECONDS:.0f} s")
        return None, self._asked.epoch


class StreamReader:
    """Reads the event stream, from any API process, and resumes where it broke off."""

    def __init__(self, http: Http, asked: Asked) -> None:
        self._http, self._asked = http, asked
        self.numbers: list[int] = []
        """The events of the database in use."""

    async def read(self) -> None:
        attempt, epoch = 0, self._asked.epoch
        while True:
            attempt += 1
            if epoch != self._asked.epoch:
                epoch, self.numbers = self._asked.epoch, []
            api = self._http.apis[attempt % len(self._http.apis)]
            try:
                async with self._http.client.get(
                    f"{api.address}/api/events/stream",
                    headers={"Last-Event-ID": str(self.numbers[-1] if self.numbers else 0)},
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30),
                ) as response:
                    async for line in response.content:
                        if epoch != self._asked.epoch:
                            break
                        if line.startswith(b"id:"):
                            self.numbers.append(int(line[3:]))
            except (aiohttp.ClientError, TimeoutError, ValueError):
                pass
            await CLOCK.sleep(0.2)
