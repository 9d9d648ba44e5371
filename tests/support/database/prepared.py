"""
A cluster that is made and migrated once in a session, and copied into each new data directory.

Making one takes two thirds of a second of CPU, as much as everything else in the start of a service but its imports.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from corral.base.clock import SystemClock
from corral.jobs.pgqueuer_adapter import install
from corral.store.server.cluster_location import choose_location, locate
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.migrate import migrate

ENOUGH_MEMORY_BYTES: Final = 6 * 1024**3
"""Each of four workers has a server with up to 1 GB of log, and services of single tests have their own."""
UNSYNCED: Final = (("fsync", "off"), ("full_page_writes", "off"))
"""Options of a server whose data need not survive the machine."""


def memory() -> Path | None:
    """A file system in memory with room for the data of all workers, if there is one."""
    found = Path("/dev/shm")  # noqa: S108  # of Linux; its files are made by mkdtemp
    if not os.access(found, os.W_OK) or shutil.disk_usage(found).free < ENOUGH_MEMORY_BYTES:
        return None
    return found


def prepare(data_dir: Path) -> None:
    """Put a migrated cluster into *data_dir*, as `corral migrate` would; one that has a cluster stays as it is."""
    place = choose_location(data_dir).cluster
    if place.exists():
        return
    draft = place.with_name(f"{place.name}.draft-{secrets.token_hex(4)}")
    subprocess.run(["cp", "-a", str(_made()), str(draft)], check=True)
    draft.rename(place)


@cache
def _made() -> Path:
    home = Path(tempfile.mkdtemp(prefix="corral-prepared-", dir=memory()))
    home.chmod(0o711)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    data_dir = home / "data"
    with ThreadPoolExecutor(1) as thread:  # because the caller's thread may run an event loop
        thread.submit(lambda: asyncio.run(_make(data_dir))).result()
    return locate(data_dir)


async def _make(data_dir: Path) -> None:
    server = EmbeddedServer(data_dir, SystemClock(), options=UNSYNCED)
    target = await server.ensure()
    await migrate(target, first=install)
    await server.stop()
