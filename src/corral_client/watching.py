"""
Waiting for an instance.

The event stream says *when* to read the instance again; the instance itself is what counts. So nothing is missed when
the stream is lost, late or refused, only noticed a few seconds later.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from enum import StrEnum
from typing import Final

from corral_client.errors import CorralApiError, InstanceFailed, WaitTimeout
from corral_client.events import PATIENCE_SECONDS, AsyncEvents
from corral_client.models.instances import GONE, Event, Instance, Progress

READ_SECONDS: Final = 5.0
"""Between reads when the stream is silent; it may be lost without an error."""
POLL_SECONDS: Final = 1.5
"""Between reads without a stream."""


class Aim(StrEnum):
    """What is waited for."""

    READY = "ready"
    STOPPED = "stopped"
    GONE = "gone"


class _LatestEvent:
    """The latest event of the stream, and whether one arrived since the last read."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.latest: Event | None = None

    async def listen(self, events: AsyncEvents, instance_id: str) -> None:
        following = events.follow(instance_id=instance_id, on_open=self.arrived.set)
        async with contextlib.aclosing(following):
            async for event in following:
                self.latest = event
                self.arrived.set()


async def watch(
    read: Callable[[str], Awaitable[Instance]], events: AsyncEvents, first: Instance, *, aim: Aim, timeout: float | None
) -> AsyncGenerator[Progress]:
    """Yield the progress of *first*, at once and with every change, until it has reached *aim*."""
    begun_at = reached_at = time.monotonic()
    stream, instance, shown = _LatestEvent(), first, None
    listening = asyncio.create_task(stream.listen(events, first.id))
    try:
        while True:
            progress = Progress(instance=instance, reason=_reason(stream.latest, instance))
            seen = (instance.status, progress.reason, _checks(instance))
            if seen != shown:
                shown = seen
                yield progress
            if _is_there(instance, aim):
                return
            patience = POLL_SECONDS if listening.done() else READ_SECONDS
            if timeout is not None:
                left = begun_at + timeout - time.monotonic()
                if left <= 0:
                    raise WaitTimeout(instance.id, status=instance.status, timeout=timeout)
                patience = min(patience, left)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stream.arrived.wait(), patience)
            stream.arrived.clear()  # before the read: an event that arrives after it must cause another
            try:
                instance, reached_at = await read(instance.id), time.monotonic()
            except CorralApiError as error:
                if not error.retryable or time.monotonic() - reached_at > PATIENCE_SECONDS:
                    raise
    finally:
        listening.cancel()
        await asyncio.wait([listening])
        if not listening.cancelled():
            listening.exception()  # a refused stream is no loss: reads continued without it


def _is_there(instance: Instance, aim: Aim) -> bool:
    if aim is Aim.GONE:
        return instance.is_gone
    if instance.status == "failed":
        raise _failed(instance, "STARTUP_FAILED", "it did not come up")
    if instance.status in GONE:
        message = "it was deleted during the wait"
        raise InstanceFailed(instance.id, code="INSTANCE_DELETED", message=message, status=instance.status)
    if aim is Aim.STOPPED:
        return instance.status == "exited"
    if instance.status == "exited":
        raise _failed(instance, "INSTANCE_STOPPED", "it is stopped, and nothing starts it")
    return instance.is_ready


def _failed(instance: Instance, code: str, message: str) -> InstanceFailed:
    """With the instance's own error where it has one: a failed start leaves it stopped, with the reason."""
    error = instance.error
    return InstanceFailed(
        instance.id,
        code=code if error is None else error.code,
        message=message if error is None else error.message,
        status=instance.status,
    )


def _checks(instance: Instance) -> tuple[tuple[int, str], ...]:
    found = instance.health_check
    return () if found is None else tuple((endpoint.port, endpoint.status) for endpoint in found.endpoints)


def _reason(latest: Event | None, instance: Instance) -> str | None:
    """What the instance waits for; else the reason of the latest event, if that is about its present status."""
    if instance.reason is not None:
        return instance.reason
    return latest.reason if latest is not None and latest.status == instance.status else None
