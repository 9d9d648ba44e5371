"""
The bare side of HTTP: Litestar on uvicorn with no more than it takes to answer, `bare_server.py PORT [PATH FILE]...`.

Every PATH is answered with the bytes of FILE, from memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from litestar import Litestar, Response, get
from litestar.handlers import HTTPRouteHandler


def answering(path: str, body: bytes) -> HTTPRouteHandler:
    """A route that answers *body*."""

    @get(path)
    async def answer() -> Response[bytes]:
        return Response(body, media_type="application/json")

    return answer


def main(port: int, *answers: str) -> None:
    """Serve until a signal."""
    routes = [answering(path, Path(file).read_bytes()) for path, file in zip(answers[::2], answers[1::2], strict=True)]
    app = Litestar(route_handlers=routes, openapi_config=None, logging_config=None)
    uvicorn.run(app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", log_config=None, access_log=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
