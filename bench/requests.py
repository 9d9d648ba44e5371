"""Sends many creates at once, and measures how long each answer took and when each was ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from bench.wire import Line
from corral.base.clock import Clock

RETRY_SECONDS = 0.05
POLL_SECONDS = 0.25
PAGE = 500


@dataclass(kw_only=True)
class Accepted:
    """How a burst was accepted."""

    began: float
    """Unix seconds."""
    seconds: float = 0.0
    """Until the last was accepted."""
    waits: list[float] = field(default_factory=list[float])
    """Seconds of each accepted POST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One instance as the service shows it."""

    provider_id: str
    ready_at: float
    """Unix seconds."""


def create_body(number: int) -> dict[str, str]:
    """The body of a create."""
    return {"name": f"bench-{number}", "productName": "RTX 4090 24GB", "templateId": "107672"}


async def send(
    port: int,
    clock: Clock,
    *,
    requests: int,
    in_flight: int,
    keyed: bool,
    on_accepted: Callable[[int], object] = lambda _count: None,
) -> Accepted:
    """
    Send *requests* over *in_flight* connections; calls *on_accepted* with how many were accepted so far.

    With keys, one that is not answered is sent again until it is; without, that is an error.
    """
    accepted = Accepted(began=time.time())
    began = time.perf_counter()
    numbers = iter(range(requests))
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(_sender(Line(port), clock, numbers, accepted, keyed=keyed, on_accepted=on_accepted))
    accepted.seconds = time.perf_counter() - began
    return accepted


async def _sender(
    line: Line,
    clock: Clock,
    numbers: Iterator[int],
    accepted: Accepted,
    *,
    keyed: bool,
    on_accepted: Callable[[int], object],
) -> None:
    async with line:
        for number in numbers:
            headers = {"idempotency_key": f"bench-{accepted.began}-{number}"} if keyed else {}
            while True:
                began = time.perf_counter()
                try:
                    answer = await line.ask(
                        "POST", "/api/instances", msgspec.json.encode(create_body(number)), **headers
                    )
                except ConnectionError:
                    if not keyed:
                        raise
                    await clock.sleep(RETRY_SECONDS)
                    continue
                if answer.status == 201:
                    break
                if not keyed or answer.status != 503:
                    raise RuntimeError(f"a create was answered with {answer.status}: {answer.body[:300]!r}")
                await clock.sleep(RETRY_SECONDS)
            accepted.waits.append(time.perf_counter() - began)
            on_accepted(len(accepted.waits))


async def all_ready(port: int, clock: Clock, *, requests: int, within: float) -> list[Shown]:
    """Wait until *requests* instances are ready, and return them."""
    deadline = time.perf_counter() + within
    async with Line(port) as line:
        while (found := await _read(line, "/api/instances?status=ready&limit=1"))["total"] < requests:
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{found['total']} of {requests} are ready after {within:.0f} s")
            await clock.sleep(POLL_SECONDS)
        pages = [
            await _read(line, f"/api/instances?limit={PAGE}&offset={offset}") for offset in range(0, requests, PAGE)
        ]
    return [
        Shown(provider_id=i["novitaInstanceId"], ready_at=datetime.fromisoformat(i["readyAt"]).timestamp())
        for page in pages
        for i in page["instances"]
    ]


async def _read(line: Line, path: str) -> Any:
    answer = await line.ask("GET", path)
    if answer.status != 200:
        raise RuntimeError(f"GET {path} was answered with {answer.status}: {answer.body[:300]!r}")
    return msgspec.json.decode(answer.body)
