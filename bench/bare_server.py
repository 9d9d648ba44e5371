"""
The same routes from memory on Litestar and uvicorn: `bare_server.py PORT FILE`, FILE as GET /api/instances answers it.

No more than it takes: what Corral's server, edge, checks and database cost is the difference.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from litestar import Litestar, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody
from litestar.response import Stream


class CreateBody(msgspec.Struct, rename="camel"):
    """The body of a create."""

    name: str
    product_name: str
    template_id: str


def routes(instances: dict[str, dict[str, Any]]) -> list[HTTPRouteHandler]:
    """The routes over *instances*, newest first."""
    example = next(iter(instances.values()))
    newest = list(instances)
    numbers = itertools.count(1)
    followers: set[asyncio.Queue[bytes]] = set()

    @get("/health/live")
    async def live() -> dict[str, str]:
        return {"status": "up"}

    @get("/api/instances")
    async def page(limit: FromQuery[int] = 100, offset: FromQuery[int] = 0) -> dict[str, Any]:
        shown = [instances[each] for each in newest[offset : offset + limit]]
        return {"instances": shown, "total": len(instances), "limit": limit, "offset": offset}

    @get("/api/instances/{instance_id:str}")
    async def one(instance_id: FromPath[str]) -> dict[str, Any]:
        return instances[instance_id]

    @post("/api/instances", status_code=201)
    async def create(data: JSONBody[CreateBody]) -> dict[str, Any]:
        new = f"inst_{secrets.token_hex(13)}"
        instances[new] = {**example, "id": new, "name": data.name, "status": "creating"}
        newest.insert(0, new)
        seq = next(numbers)
        event = {"id": f"evt_{seq}", "seq": seq, "event": "instance.created", "instanceId": new, "status": "creating"}
        frame = b"id: %d\ndata: %b\n\n" % (seq, msgspec.json.encode(event))
        for follower in followers:
            follower.put_nowait(frame)
        return {
            "instanceId": new,
            "status": "creating",
            "message": "Instance creation initiated successfully",
            "estimatedReadyTime": example["createdAt"],
            "operationId": f"op_{secrets.token_hex(13)}",
            "region": example["region"],
            "productId": example["productId"],
            "price": example["price"],
        }

    async def following() -> AsyncGenerator[bytes]:
        frames: asyncio.Queue[bytes] = asyncio.Queue()
        followers.add(frames)
        try:
            yield b"retry: 1000\n\n"
            while True:
                yield await frames.get()
        finally:
            followers.discard(frames)

    @get("/api/events/stream")
    async def stream() -> Stream:
        return Stream(following(), media_type="text/event-stream")

    return [live, page, one, create, stream]


def main(port: int, file: str) -> None:
    """Serve until a signal."""
    listed = msgspec.json.decode(Path(file).read_bytes())["instances"]
    app = Litestar(
        route_handlers=routes({instance["id"]: instance for instance in listed}),
        openapi_config=None,
        logging_config=None,
    )
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
