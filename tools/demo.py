"""
A dashboard with constant activity: `make demo`.

It serves its own simulated account on a free port, which it prints: stock changes by the minute, a dozen machines are
created, stopped, started and deleted, and two fail with a reason. Its data is in a temporary directory that it removes
at the end. It reads no setting and no `.env`, so that it runs beside a service of yours and never uses your account.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import re
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from corral_client import AsyncClient, CorralApiError, CorralError, Instance
from corral_client.models.instances import GONE

KEPT = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
"""The environment of the service; anything else may be a setting of another service, or the key of a real account."""
MOST = 14
WORLD = {"stock": "12", "boot_seconds": "5", "pull_seconds": "6", "stop_seconds": "4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine of the demo."""

    name: str
    product: str = "RTX 4090 24GB"
    template: str = "107672"
    gpus: int = 1


STEADY = (
    Machine(name="llm-serving", product="H100 SXM 80GB", template="107701", gpus=4),
    Machine(name="notebook-lena"),
    Machine(name="embeddings", template="150032", gpus=2),
    Machine(name="image-typo", product="RTX 5090 32GB", template="150034"),
    Machine(name="never-answers", template="150033"),
)
"""Permanent: three healthy ones, one with an image that does not exist, one that never passes its health check."""
TOGGLED = (Machine(name="night-batch", template="150020"), Machine(name="staging", product="RTX 5090 32GB"))
"""Stopped and started repeatedly."""
PRODUCTS = ("RTX 4090 24GB", "RTX 5090 32GB", "H100 SXM 80GB")
TEMPLATES = ("107672", "107701", "107715", "150020", "150031")


async def main(arguments: Sequence[str]) -> int:
    """Serve, and keep changing things until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description="Serve a simulated account with constant activity.")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (any free one)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="corral-demo-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o711)  # PostgreSQL does not run as root, and must reach its data
        return await serve(Path(home), chosen.port)


async def serve(home: Path, port: int) -> int:
    """Serve from *home*, which has no `.env`, until the service ends; returns its exit code."""
    service = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("corral")), "serve", "--port", str(port)),
        cwd=home,
        env={
            **{name: os.environ[name] for name in KEPT if name in os.environ},  # noqa: TID251
            "CORRAL_DATA_DIR": str(home / "data"),
            "HEALTH_CHECK_MAX_WAIT_TIME_MS": "40000",
            "LOG_LEVEL": "warning",
        },
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # one signal, from us; a second would make it leave without tidying up
    )
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, service.terminate)
    activity: asyncio.Task[None] | None = None
    assert service.stdout is not None  # noqa: S101  # it was asked for
    async for line in service.stdout:
        sys.stdout.write(line.decode())
        sys.stdout.flush()
        if activity is None and (found := re.search(rb" serves on (\S+)", line)):
            activity = asyncio.create_task(run_activity(found[1].decode(), home / "data"))
    if activity is not None:
        activity.cancel()
        with contextlib.suppress(asyncio.CancelledError, CorralError):
            await activity
    return await service.wait()


async def run_activity(address: str, data: Path) -> None:
    """Create the permanent machines, then change something every few seconds."""
    async with AsyncClient(address, api_key="") as client:
        await tune(data, WORLD)
        for machine in (*STEADY, *TOGGLED):
            await order(client, machine)
        await all_created(client)
        await tune(data, {"weather": "stormy"})  # only now: a shortage would affect the permanent machines
        for number in itertools.count(1):
            with contextlib.suppress(CorralApiError):  # a shortage, or an operation in progress
                await change_something(client, number)
            await asyncio.sleep(random.uniform(1, 4))  # noqa: S311, TID251  # slow enough to watch


async def change_something(client: AsyncClient, number: int) -> None:
    """One change: create, stop, start, restart or delete a machine."""
    living = [i async for i in client.instances.list(page_size=500) if i.status not in GONE]
    toggled = [
        i for i in living if i.name in {machine.name for machine in TOGGLED} and (i.is_ready or i.status == "exited")
    ]
    temporary = [i for i in living if i.name.startswith("job-")]
    match number % 6:
        case 0 if toggled:
            await toggle(client, random.choice(toggled))  # noqa: S311  # a demonstration
        case 3 if settled := [i for i in temporary if i.is_ready]:
            await client.instances.restart(settled[0].id)
        case 5 if temporary:
            await client.instances.delete(temporary[-1].id)
        case _ if len(living) < MOST:
            product, template = random.choice(PRODUCTS), random.choice(TEMPLATES)  # noqa: S311  # as above
            await order(client, Machine(name=f"job-{number}", product=product, template=template))
        case _ if temporary:
            await client.instances.delete(temporary[-1].id)


async def toggle(client: AsyncClient, instance: Instance) -> None:
    """Stop what is ready, start what is stopped."""
    if instance.is_ready:
        await client.instances.stop(instance.id)
    else:
        await client.instances.start(instance.id)


async def order(client: AsyncClient, machine: Machine) -> None:
    """Create a machine; a shortage is ignored."""
    with contextlib.suppress(CorralApiError):
        await client.instances.create(
            name=machine.name, product_name=machine.product, template_id=machine.template, gpu_num=machine.gpus
        )


async def all_created(client: AsyncClient) -> None:
    """Wait until every permanent machine is created."""
    while True:
        if all([i.status != "creating" async for i in client.instances.list(page_size=500)]):
            return
        await asyncio.sleep(0.2)  # noqa: TID251  # waiting for another process


async def tune(data: Path, world: Mapping[str, str]) -> None:
    """Change settings of the simulated provider."""
    address = (data / "simulator" / "address").read_text(encoding="utf-8").strip()
    async with aiohttp.ClientSession() as client, client.post(f"{address}/_sim/settings", json=world) as answer:
        answer.raise_for_status()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
