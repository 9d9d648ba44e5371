"""More connections than the process has handles for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from support.clock.waiting import until
from support.processes.process import Running, quicken, serving

HANDLES = "256"
CROWD = 400
CREATE_BODY = {"name": "alone", "productName": "RTX 4090 24GB", "templateId": "107672"}


async def test_a_crowd_takes_nothing_that_the_service_needs(short_dir: Path) -> None:
    """Creates become ready meanwhile, the first connections are served, and later all is as before."""
    data_dir = short_dir / "crowd" / ".corral"
    async with serving(data_dir, handles=HANDLES) as corral:
        await quicken(data_dir)
        async with AsyncExitStack() as crowd:
            early = await _follow(corral, crowd)
            await early.readuntil(b"retry: ")
            assert (await corral.ask("POST", "/api/instances", json=CREATE_BODY)).status == 201
            late = await asyncio.gather(*(_follow(corral, crowd) for _ in range(CROWD)))
            assert await asyncio.wait_for(_is_refused(late[-1]), 30)
            await asyncio.wait_for(early.readuntil(b"instance.ready"), 30)

        await until(corral.is_ready, what="a free place")
        (shown,) = (await corral.ask("GET", "/api/instances")).json["instances"]
        assert shown["status"] == "ready"
        assert any("server.full" in line for line in corral.lines)


async def _follow(corral: Running, crowd: AsyncExitStack) -> asyncio.StreamReader:
    place = urlsplit(corral.address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    crowd.callback(writer.close)
    writer.write(b"GET /api/events/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    return reader


async def _is_refused(reader: asyncio.StreamReader) -> bool:
    """Whether a connection is ended at once, with the reason or without: what it sent may cross our answer."""
    try:
        answer = await reader.read()
    except ConnectionError:
        return True
    return answer == b"" or answer.startswith(b"HTTP/1.1 503 ")
