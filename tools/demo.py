"""
A lively world to look at: `make demo`.

It serves on http://127.0.0.1:3000 with a simulated account of its own: stock comes and goes by the minute, a dozen
machines come, go, rest and wake, and two fail and say why. Its data directory is `.corral-demo`, made again each time;
`.corral` is not touched.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from corral_client import AsyncClient, CorralApiError, CorralError, Instance
from corral_client.models import GONE

ROOT = Path(__file__).parent.parent
DATA = ROOT / ".corral-demo"
MOST = 14
WORLD = {"stock": "12", "boot_seconds": "5", "pull_seconds": "6", "stop_seconds": "4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A machine of the demo."""

    name: str
    product: str = "RTX 4090 24GB"
    template: str = "107672"
    gpus: int = 1


STEADY = (
    Part(name="llm-serving", product="H100 SXM 80GB", template="107701", gpus=4),
    Part(name="notebook-lena"),
    Part(name="embeddings", template="150032", gpus=2),
    Part(name="image-typo", product="RTX 5090 32GB", template="150034"),
    Part(name="never-answers", template="150033"),
)
"""They stay: three well, one with an image that does not exist, one that never passes its health check."""
RESTING = (Part(name="night-batch", template="150020"), Part(name="staging", product="RTX 5090 32GB"))
"""They are stopped and started, over and over."""
VISITORS = ("RTX 4090 24GB", "RTX 5090 32GB", "H100 SXM 80GB")
TEMPLATES = ("107672", "107701", "107715", "150020", "150031")


async def main(arguments: Sequence[str]) -> int:
    """Serve, and keep the world moving until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description="Serve a lively simulated world.")
    parser.add_argument("--port", type=int, default=3000, help="port to listen on (3000)")
    parser.add_argument("--data", type=Path, default=DATA, help="data directory, made again (.corral-demo)")
    chosen = parser.parse_args(arguments)
    shutil.rmtree(chosen.data, ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if name not in {"NOVITA_API_KEY", "DATABASE_URL"}}  # noqa: TID251
    service = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("corral")), "serve", "--port", str(chosen.port)),
        env={
            **kept,
            "CORRAL_DATA_DIR": str(chosen.data),
            "HEALTH_CHECK_MAX_WAIT_TIME_MS": "40000",
            "LOG_LEVEL": "warning",
        },
        start_new_session=True,  # one signal, from us; a second would make it leave without tidying up
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, service.terminate)
    moving = asyncio.create_task(move(f"http://127.0.0.1:{chosen.port}", chosen.data))
    code = await service.wait()
    moving.cancel()
    with contextlib.suppress(asyncio.CancelledError, CorralError):
        await moving
    return code


async def move(address: str, data: Path) -> None:
    """Bring the cast on stage, then let things happen."""
    async with AsyncClient(address) as client:
        await ready(client)
        await tune(data, WORLD)
        for part in (*STEADY, *RESTING):
            await order(client, part)
        await on_stage(client)
        await tune(data, {"weather": "stormy"})  # not before: a shortage would change the cast
        for number in itertools.count(1):
            with contextlib.suppress(CorralApiError):  # a shortage, or something under way: part of the play
                await happen(client, number)
            await asyncio.sleep(random.uniform(1, 4))  # noqa: S311, TID251  # a pace to watch


async def happen(client: AsyncClient, number: int) -> None:
    """One random action: create, delete, stop, start or restart."""
    living = [i async for i in client.instances.list(page_size=500) if i.status not in GONE]
    resting = [i for i in living if i.name in {part.name for part in RESTING} and (i.is_ready or i.status == "exited")]
    visitors = [i for i in living if i.name.startswith("job-")]
    match number % 6:
        case 0 if resting:
            await toggle(client, random.choice(resting))  # noqa: S311  # a demonstration
        case 3 if settled := [i for i in visitors if i.is_ready]:
            await client.instances.restart(settled[0].id)
        case 5 if visitors:
            await client.instances.delete(visitors[-1].id)
        case _ if len(living) < MOST:
            product, template = random.choice(VISITORS), random.choice(TEMPLATES)  # noqa: S311  # as above
            await order(client, Part(name=f"job-{number}", product=product, template=template))
        case _ if visitors:
            await client.instances.delete(visitors[-1].id)


async def toggle(client: AsyncClient, instance: Instance) -> None:
    """Stop what is ready, start what is stopped."""
    if instance.is_ready:
        await client.instances.stop(instance.id)
    else:
        await client.instances.start(instance.id)


async def order(client: AsyncClient, part: Part) -> None:
    """Create one; without capacity, do nothing."""
    with contextlib.suppress(CorralApiError):
        await client.instances.create(
            name=part.name, product_name=part.product, template_id=part.template, gpu_num=part.gpus
        )


async def on_stage(client: AsyncClient) -> None:
    """Wait until everybody of the cast has a machine."""
    while True:
        if all([i.status != "creating" async for i in client.instances.list(page_size=500)]):
            return
        await asyncio.sleep(0.2)  # noqa: TID251  # waiting for another process


async def tune(data: Path, world: Mapping[str, str]) -> None:
    """Change settings of the simulator."""
    address = (data / "simulator" / "address").read_text(encoding="utf-8").strip()
    async with aiohttp.ClientSession() as client, client.post(f"{address}/_sim/settings", json=world) as answer:
        answer.raise_for_status()


async def ready(client: AsyncClient) -> None:
    """Wait until the service answers."""
    while True:
        try:
            if (await client.health()).is_healthy:
                return
        except CorralApiError:
            pass
        await asyncio.sleep(0.2)  # noqa: TID251  # waiting for another process


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
