"""A tiny HTTP server that answers as the test says, however badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]
Respond = Callable[[], web.StreamResponse]


@asynccontextmanager
async def upstream(answer: Answering) -> AsyncGenerator[str]:
    """The address of a server that answers everything with *answer*, for the length of the block."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def answering(*responses: Respond) -> tuple[Answering, list[web.Request]]:
    """An answer that goes through *responses* and stays with the last; and the requests it gets."""
    requests: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return responses[min(len(requests), len(responses)) - 1]()

    return answer, requests


def refusing(status: int, reason: str = "", message: str = "no", **headers: str) -> Respond:
    """The provider's refusal, with *headers*."""
    body = {"code": status, "reason": reason, "message": message}
    return lambda: web.json_response(
        body, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


async def never(_request: web.Request) -> web.StreamResponse:
    """No answer, until the server ends."""
    await asyncio.Event().wait()
    return web.Response()
