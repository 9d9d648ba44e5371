"""
A lively world to look at: `make demo`.

It serves on http://127.0.0.1:3000 with a simulated account of its own, in which machines come, fail, recover and go.
Its data directory is `.corral-demo`, made anew each time; `.corral` is not touched.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import signal
import sys
from pathlib import Path

import aiohttp

ROOT = Path(__file__).parent.parent
DATA = ROOT / ".corral-demo"
ADDRESS = "http://127.0.0.1:3000"
PRODUCTS = ("RTX 4090 24GB", "RTX 5090 32GB", "H100 SXM 80GB")
TEMPLATES = ("107672", "107701", "107715", "150020", "150031", "150032", "150033", "150034")
"""The simulator's own: ready at once, slow to start, behind a login page, never healthy, an image that is not there."""
MOST = 14


async def main() -> int:
    """Serve, and keep the world moving until Ctrl-C."""
    shutil.rmtree(DATA, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if name != "NOVITA_API_KEY"}  # noqa: TID251
    service = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("corral")),
        "serve",
        env={
            **environment,
            "CORRAL_DATA_DIR": str(DATA),
            "HEALTH_CHECK_MAX_WAIT_TIME_MS": "30000",
            "LOG_LEVEL": "warning",
        },
        start_new_session=True,  # one signal, from us; a second would make it leave without tidying up
    )
    loop = asyncio.get_running_loop()
    for wish in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wish, service.terminate)
    moving = asyncio.create_task(move())
    code = await service.wait()
    moving.cancel()
    return code


async def move() -> None:
    """Wish for machines of every kind, and let them go again."""
    async with aiohttp.ClientSession() as client:
        await ready(client)
        for number in itertools.count(1):
            async with client.get(f"{ADDRESS}/api/instances?limit=500") as answer:
                known = (await answer.json())["instances"]
            alive = [i for i in known if i["status"] not in {"deleting", "terminated"}]
            if len(alive) < MOST:
                wish = {
                    "name": f"demo-{number}",
                    "productName": random.choice(PRODUCTS),  # noqa: S311  # a demonstration
                    "templateId": TEMPLATES[number % len(TEMPLATES)],
                }
                async with client.post(f"{ADDRESS}/api/instances", json=wish) as answer:
                    await answer.read()
            else:
                leaving = random.choice(alive)["id"]  # noqa: S311  # a demonstration
                async with client.delete(f"{ADDRESS}/api/instances/{leaving}") as answer:
                    await answer.read()
            await asyncio.sleep(random.uniform(1, 6))  # noqa: S311, TID251  # a pace to watch


async def ready(client: aiohttp.ClientSession) -> None:
    """Wait until the service answers."""
    while True:
        try:
            async with client.get(f"{ADDRESS}/health/ready") as answer:
                if answer.ok:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.2)  # noqa: TID251  # waiting for another process


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
