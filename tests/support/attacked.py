"""What a rampage attacks: processes that come back, and a receiver of webhooks that fails now and then."""

from __future__ import annotations

import asyncio
import random
import signal
from dataclasses import dataclass
from pathlib import Path

import msgspec
from aiohttp import web

from support.process import CORRAL


@dataclass(kw_only=True)
class Process:
    """One `corral serve`, which may be killed and is then started again."""

    role: str
    port: int
    log: Path
    environment: dict[str, str]
    running: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.running = await asyncio.create_subprocess_exec(
                str(CORRAL), "serve", "--role", self.role, "--port", str(self.port),
                cwd=self.log.parent, env=self.environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    async def supervise(self) -> None:
        """Start it again if it ended by itself, as it does when it finds no database at its start."""
        if self.running is not None and self.running.returncode is not None:
            await self.start()

    async def end(self, how: signal.Signals) -> None:
        if self.running is not None and self.running.returncode is None:
            self.running.send_signal(how)
            await self.running.wait()


class Receiver:
    """Takes webhooks, badly: now and then it answers with an error, and is told again."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.failing = True
        self.got: dict[str, list[int]] = {}
        """The event numbers of each instance, in the order they first came."""

    async def take(self, request: web.Request) -> web.Response:
        told = msgspec.json.decode(await request.read())
        if self.failing and self._dice.random() < 0.1:
            return web.Response(status=503)
        numbers = self.got.setdefault(told["instanceId"], [])
        if told["seq"] not in numbers:
            numbers.append(told["seq"])
        return web.Response()
