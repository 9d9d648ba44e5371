"""`make demo` shows a lively world."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
from support.clock.waiting import until
from support.http.servers import unused_port
from support.processes.process import clean_environment

from corral_client import AsyncClient, CorralApiError

ROOT = Path(__file__).parents[2]


async def test_the_demo_is_lively_and_leaves_when_asked(short_dir: Path) -> None:
    """Many phases at once, a failure that explains itself, stock that comes and goes; and an end without a mess."""
    data, port = short_dir / "demo", unused_port()
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "tools" / "demo.py"), "--port", str(port), "--data", str(data)),
        env=clean_environment(),
        stdout=asyncio.subprocess.DEVNULL,
    )
    seen, failures = set[str](), dict[str, str]()
    try:
        async with AsyncClient(f"http://127.0.0.1:{port}", max_retries=0) as client:

            async def lively() -> bool:
                try:
                    living = [i async for i in client.instances.list(page_size=500)]
                except CorralApiError:
                    return False
                seen.update(i.status for i in living)
                failures.update({i.name: i.error.code for i in living if i.status == "failed" and i.error})
                known = {"ready", "exited", "starting"} <= seen and "image-typo" in failures
                return known and len(living) >= 8

            await until(lively, within=100, what="a lively world")
        address = (data / "simulator" / "address").read_text(encoding="utf-8").strip()
        async with aiohttp.ClientSession() as simulator, simulator.get(f"{address}/_sim/settings") as answer:
            assert (await answer.json())["weather"]["value"] == "stormy"
        assert failures["image-typo"] == "PROVISIONING_FAILED"
    finally:
        demo.send_signal(signal.SIGINT)
        code = await demo.wait()
    assert code == 0
