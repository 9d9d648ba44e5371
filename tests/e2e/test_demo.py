"""`make demo` shows a lively world."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import aiohttp
from support.clock.waiting import until
from support.processes.process import clean_environment

from corral_client import AsyncClient, CorralApiError

ROOT = Path(__file__).parents[2]


async def test_the_demo_is_lively_and_leaves_when_asked(short_dir: Path) -> None:
    """
    Many phases at once, a failure that explains itself, stock that comes and goes; and an end without a mess.

    It uses a free port and its own data, whatever the settings of a service in the same directory are: with the key of
    a real account it would create machines that are billed.
    """
    (short_dir / "demo").mkdir(mode=0o711)
    (short_dir / "demo" / ".env").write_text("NOVITA_API_KEY=of-a-real-account\nPORT=1\n")
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "tools" / "demo.py")),
        cwd=short_dir / "demo",
        env=clean_environment(
            TMPDIR=str(short_dir / "demo"), NOVITA_API_KEY="of-a-real-account", HOST="0.0.0.0", CORRAL_API_KEY="x"
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    seen, failures = set[str](), dict[str, str]()
    try:
        assert demo.stdout is not None
        assert b"NOVITA_API_KEY is not set" in await demo.stdout.readline()
        served = re.search(r" serves on (http://127\.0\.0\.1:\d+)$", (await demo.stdout.readline()).decode().strip())
        assert served is not None
        async with AsyncClient(served[1], max_retries=0) as client:

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
        (home,) = short_dir.glob("demo/corral-demo-*")
        address = (home / "data" / "simulator" / "address").read_text(encoding="utf-8").strip()
        async with aiohttp.ClientSession() as simulator, simulator.get(f"{address}/_sim/settings") as answer:
            assert (await answer.json())["weather"]["value"] == "stormy"
        assert failures["image-typo"] == "PROVISIONING_FAILED"
    finally:
        demo.send_signal(signal.SIGINT)
        code = await demo.wait()
    assert code == 0
    assert [path.name for path in (short_dir / "demo").iterdir()] == [".env"]
