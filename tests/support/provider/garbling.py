"""A proxy before the simulator that garbles what the provider answers, as long as the test wants."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from support.provider.upstream import upstream

Garble = Callable[[str, Any], bytes]
"""From the last part of a path and a valid answer to what is sent instead."""


def faithfully(_what: str, answer: Any) -> bytes:
    """The answer as it is."""
    return json.dumps(answer).encode()


@dataclass(kw_only=True)
class Garbler:
    """The proxy, in the hands of a test."""

    address: str = ""
    to: str = ""
    garble: Garble = faithfully
    garbled: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        async with aiohttp.ClientSession() as client:
            body = await request.read()
            headers = {"Authorization": "Bearer key", "Content-Type": "application/json"}
            url = self.to + request.path_qs
            async with client.request(request.method, url, data=body, headers=headers) as response:
                said = await response.read()
                if response.status != 200 or request.method != "GET":
                    return web.Response(status=response.status, body=said)
        self.garbled += self.garble is not faithfully
        return web.Response(body=self.garble(request.path.rsplit("/", 1)[-1], json.loads(said)))


@asynccontextmanager
async def garbling() -> AsyncGenerator[Garbler]:
    """A proxy that gets its target later."""
    garbler = Garbler()
    async with upstream(garbler.answer) as address:
        garbler.address = address
        yield garbler
