"""Receivers of webhooks: one that fails and hangs now and then, and one that never answers."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import msgspec
from aiohttp import web

from support.http.servers import unused_port

FAILS = 0.1
"""Share of deliveries that the ordinary receiver answers with 503 during the attack."""


class Receiver:
    """Takes webhooks, badly: during the attack some answers are errors, and during a spell there is none."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.is_failing = True
        self.answers = asyncio.Event()
        self.answers.set()
        self.url = self.silent_url = ""
        self.got: dict[str, list[int]] = {}
        """The event numbers of each instance, in the order they first came."""

    async def start(self, stack: AsyncExitStack) -> None:
        self.url = await self._serve(stack, "127.0.0.1", self._take)
        # Under another host name, because the service counts what it sends by host.
        self.silent_url = await self._serve(stack, "localhost", self._hang)

    async def _serve(self, stack: AsyncExitStack, host: str, handler: object) -> str:
        app = web.Application()
        app.router.add_post("/", handler)  # type: ignore[arg-type]
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        port = unused_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return f"http://{host}:{port}/"

    async def _take(self, request: web.Request) -> web.Response:
        event = msgspec.json.decode(await request.read())
        if not self.answers.is_set():
            await self.answers.wait()
            return web.Response(status=503)
        if self.is_failing and self._dice.random() < FAILS:
            return web.Response(status=503)
        numbers = self.got.setdefault(event["instanceId"], [])
        if event["seq"] not in numbers:
            numbers.append(event["seq"])
        return web.Response()

    async def _hang(self, request: web.Request) -> web.Response:
        await request.read()
        await asyncio.Event().wait()
        return web.Response()
