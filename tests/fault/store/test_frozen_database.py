"""A PostgreSQL that accepts everything and answers nothing: no caller waits for ever."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from support.clock.waiting import until
from support.processes.process import Running, serving

from corral.store.server.cluster_location import locate


def _children(pid: int) -> list[int]:
    return [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _parent(stat) == pid]


def _parent(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


@contextmanager
def frozen(data_dir: Path) -> Generator[None]:
    """Stop every process of the PostgreSQL server on *data_dir* for the time of the block."""
    postmaster = int((locate(data_dir) / "postmaster.pid").read_text().splitlines()[0])
    os.kill(postmaster, signal.SIGSTOP)  # first: from then on it starts no session, and the pids of its children stay
    pids = [postmaster, *_children(postmaster)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


async def _timed(service: Running, method: str, path: str, **options: object) -> tuple[int, float]:
    began = time.monotonic()
    answer = await service.ask(method, path, **options)
    return answer.status, time.monotonic() - began


async def test_a_frozen_database_is_503_within_ten_seconds_and_reported(short_dir: Path) -> None:
    """Reads hung for ever, and with them every client and every health check behind a proxy."""
    data_dir = short_dir / "frozen"
    order = {"name": "x", "productName": "RTX 4090 24GB", "templateId": "107672"}
    async with serving(data_dir) as service:
        await service.ask("GET", "/api/products?name=RTX 4090 24GB")
        with frozen(data_dir):
            answers = await asyncio.gather(
                # First, while the pool still has connections: the lookup of the key itself must end as well.
                _timed(service, "POST", "/api/instances", json=order, headers={"Idempotency-Key": "order"}),
                _timed(service, "POST", "/api/jobs/pause", headers={"Idempotency-Key": "pause"}),
                *(_timed(service, "GET", f"/api/instances?offset={n}") for n in range(30)),
                *(_timed(service, "POST", "/api/instances", json=order) for _ in range(5)),
            )
            reported = await service.ask("GET", "/health")
            later = await _timed(service, "GET", "/api/instances")
        await until(service.is_ready, what="the database answering again")
        after = await service.ask("POST", "/api/instances", json={**order, "name": "after"})

    assert {status for status, _ in answers} == {503}
    assert max(seconds for _, seconds in answers) < 10
    assert (reported.status, reported.json["dependencies"]["database"]["problem"]) == (
        503,
        "the database does not answer",
    )
    assert later[0] == 503
    assert later[1] < 3, "once known, it is reported at once, and not after a limit of seconds"
    assert after.status == 201
    assert service.process.returncode == 0
