"""
Reports of use while a session is open, so that its instance does not count as idle.

A report that fails is left out: the session neither waits for it nor ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Final, Self

from corral.base.clock import SystemClock
from corral_client import AsyncClient, CorralError, Unauthorised
from corral_client.sync.looping import LoopThread

EVERY_SECONDS: Final = 50.0
"""
Between two reports. Longer than the shortest time after which an instance can count as idle, a minute, and an open
session would not protect its machine; shorter, and each session sends the service more than it needs to know.
"""
PARENT_CHECK_SECONDS: Final = 1.0
"""How long a forked process outlives its session."""
TIMEOUT_SECONDS: Final = 10.0
_LONGEST_ID: Final = 200


class Heartbeat:
    """Reports, from `start` until the context is left, that an instance is used; not while *is_used* returns False."""

    def __init__(
        self,
        url: str | None,
        instance_id: str,
        *,
        every: float = EVERY_SECONDS,
        is_used: Callable[[], bool] = lambda: True,
    ) -> None:
        self._url = url
        self._instance_id = instance_id
        self._every = every
        self._is_used = is_used
        self._running: tuple[LoopThread, AsyncClient] | None = None

    def start(self) -> None:
        """Report from now on, on a thread; nothing if it does already."""
        if self._running is not None:
            return
        loop, client = LoopThread(), _client(self._url)
        self._running = loop, client
        loop.start(report_use(client, self._instance_id, self._pause, self._is_used))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel a report that is under way."""
        if self._running is not None:
            loop, client = self._running
            loop.stop(client.close())

    async def _pause(self) -> bool:
        await SystemClock().sleep(self._every)
        return True


async def report_use(
    client: AsyncClient,
    instance_id: str,
    pause: Callable[[], Awaitable[bool]],
    is_used: Callable[[], bool] = lambda: True,
) -> None:
    """
    Report use at once and after each *pause* that returns True, unless *is_used* returns False.

    Returns early only when the service refuses the key. Any other refusal may pass, such as that of an instance which
    is not found after a backup was restored, and the session is still open.
    """
    while True:
        try:
            if is_used():
                await client.instances.used(instance_id)
        except Unauthorised:
            return
        except CorralError:
            pass  # the next one may succeed
        if not await pause():
            return


def fork_heartbeat(url: str | None) -> int | None:
    """
    Fork a process that reports use of the instance whose id is written to the returned descriptor.

    This process then becomes ssh, and can have no thread of ours. The other one ends when its parent has ended, or when
    the descriptor is closed without an id. To be called before the first thread is started, because a fork copies only
    one. Returns None when the system refuses another process.
    """
    read, write = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        return None
    if child:
        os.close(read)
        return write
    try:
        os.close(write)
        _detach(read)
        instance_id = os.read(read, _LONGEST_ID).decode()
        if instance_id:
            asyncio.run(_report_for(parent, url, instance_id))
    finally:
        os._exit(0)


def begin(heartbeat: int | None, instance_id: str) -> None:
    """Let the process behind *heartbeat* report use of *instance_id*."""
    with contextlib.suppress(OSError):  # it has ended
        if heartbeat is not None:
            os.write(heartbeat, instance_id.encode())


def _detach(kept: int) -> None:
    """Leave the terminal and the pipes of the session, which must end with it; *kept* stays open."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


async def _report_for(parent: int, url: str | None, instance_id: str) -> None:
    async with _client(url) as client:
        await report_use(client, instance_id, partial(_wait_with, parent))


async def _wait_with(parent: int) -> bool:
    """Wait until the next report is due; returns False as soon as *parent* has ended."""
    for _ in range(round(EVERY_SECONDS / PARENT_CHECK_SECONDS)):
        if os.getppid() != parent:
            return False
        await SystemClock().sleep(PARENT_CHECK_SECONDS)
    return True


def _client(url: str | None) -> AsyncClient:
    return AsyncClient(url, timeout=TIMEOUT_SECONDS, max_retries=0)
