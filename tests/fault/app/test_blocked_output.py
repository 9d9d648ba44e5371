"""Standard output that blocks: the service continues, and the lines lost are counted."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from pathlib import Path

import aiohttp
from support.clock.waiting import until
from support.http.servers import unused_port
from support.processes.process import CORRAL, clean_environment

from corral.base.log_writer import QueuedWriter


async def test_a_reader_that_stops_reading_does_not_stop_the_service(short_dir: Path) -> None:
    """A paused terminal or a log collector that hangs froze every request, job and health check."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    process = await asyncio.create_subprocess_exec(
        str(CORRAL),
        *("serve", "--port=0"),
        env=clean_environment(CORRAL_DATA_DIR=str(short_dir / "blocked"), LOG_LEVEL="debug"),
        stdout=into,
        stderr=into,
    )
    os.close(into)
    try:
        address = await _address(out)
        async with aiohttp.ClientSession() as client:
            for _ in range(600):  # a pipe holds 64 KiB, a line at debug level some 250 bytes
                async with client.get(f"{address}/health/live") as response:
                    assert response.status == 200
    finally:
        process.terminate()
        code = await asyncio.wait_for(process.wait(), 30)
        os.close(out)

    assert code == 0


async def test_it_serves_without_standard_streams(short_dir: Path) -> None:
    """Some supervisors start a service with them closed; that was a traceback, and sockets got their numbers."""
    port = unused_port()
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", str(CORRAL), "serve", f"--port={port}"),
        env=clean_environment(CORRAL_DATA_DIR=str(short_dir / "closed")),
    )
    try:
        await until(partial(_is_served, port), what="the service")
        streams = [Path(f"/proc/{process.pid}/fd/{number}").readlink() for number in range(3)]
    finally:
        if process.returncode is None:
            process.terminate()
        code = await asyncio.wait_for(process.wait(), 30)

    assert streams == [Path("/dev/null")] * 3
    assert code == 0


async def _is_served(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/health/live") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def _address(out: int) -> str:
    text = bytearray()

    def is_printed() -> bool:
        with contextlib.suppress(BlockingIOError):
            text.extend(os.read(out, 4096))
        return b" serves on " in text and text.endswith(b"\n")

    await until(is_printed)
    return text.decode().split(" serves on ")[1].split()[0]


async def test_lines_beyond_the_limit_are_dropped_counted_and_reported() -> None:
    """Else memory would grow for as long as nothing reads."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    reported = list[int]()
    writer = QueuedWriter(into, most_lines=10, on_dropped=reported.append)
    try:
        writer.write(f"{0:0200000}\n")  # more than a pipe holds: the thread waits from here on
        for n in range(1, 3000):
            writer.write(f"{n}\n")
        assert not writer.drain(0.05)
        dropped = writer.take_dropped()
        read = bytearray()

        def is_read() -> bool:
            try:
                read.extend(os.read(out, 65536))
            except BlockingIOError:
                return writer.drain(0)
            return False

        await until(is_read)
        await until(lambda: bool(reported))
    finally:
        os.close(into)
        os.close(out)

    lines = read.decode().splitlines()
    assert dropped > 0
    assert sum(reported) == dropped
    assert len(lines) + dropped == 3000
    written = [int(line) for line in lines[1:]]
    assert written == sorted(written)
    assert writer.take_dropped() == 0
