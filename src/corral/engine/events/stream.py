"""
Streams the event log: one reader a process, any number of followers.

Notifications wake the reader; while there are followers it reads and encodes each new event once and holds the latest.
The state of a follower is the number of its last event. It takes the next events from those held, and reads the
database when they are no longer held, because it just reconnected or is slow. So a follower costs the same at any
speed, and misses nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from corral.base.clock import Clock, is_set_within
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.domain.errors import StoreUnavailableError
from corral.engine.events.log import EventLog
from corral.store.session.notifications import Notifications
from corral.store.tables.events import TOPIC
from corral.views.event import EventDetails

HELD = 2000
"""Events held for followers: at about 500 bytes each, a megabyte. A follower further behind reads the database."""
BATCH = 100
"""Events passed to a follower at once, and the most it can have unsent in memory."""
HEARTBEAT_SECONDS = 15.0
PAUSE_SECONDS = 0.02
"""Between reads: under load, many commits are read and numbered together. Longer delays every event."""
TOGETHER = 100
"""Followers that are woken in one turn of the event loop, at 10 µs each; other tasks run between two groups. With each
group the reader pauses a tenth longer."""
UNFOLLOWED_SECONDS = 1.0
"""Between reads without followers: they only number new events, so that the next follower need not number them all."""
RETRY_SECONDS = 1.0

GREETING: Final = b"retry: 1000\n\n"
"""Sent at once, so that a client knows it is connected; sets the delay before it reconnects."""
HEARTBEAT: Final = b": heartbeat\n\n"


class _Frame(NamedTuple):
    seq: int
    instance_id: str | None
    text: bytes


class _Group:
    """Followers that are woken together."""

    def __init__(self) -> None:
        self.members = 0
        self.arrival = asyncio.Event()

    def wake(self) -> None:
        arrival, self.arrival = self.arrival, asyncio.Event()
        arrival.set()


class EventStream:
    """The live log of one process."""

    def __init__(
        self,
        event_log: EventLog,
        *,
        clock: Clock,
        metrics: Metrics,
        held: int = HELD,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._log = event_log
        self._clock = clock
        self._metrics = metrics
        self._pause_seconds = pause_seconds
        self._held: deque[_Frame] = deque(maxlen=held)
        self._last: int | None = None
        """The newest number read; None before the first read. `_held` ends with it, without gaps."""
        self._woken = asyncio.Event()
        self._woken.set()
        self._groups: list[_Group] = []
        self._followed = asyncio.Event()
        self._pulses = 0
        self._stopped = False

    def listen(self, notices: Notifications) -> None:
        """Read whenever *notices* announce events, and when a notification may have been missed."""
        notices.subscribe(TOPIC, lambda _key: self.wake())
        notices.on_gap(self.wake)

    def wake(self) -> None:
        """Read new events."""
        self._woken.set()

    def stop(self) -> None:
        """End every stream, now and from now on."""
        self._stopped = True
        for group in self._groups:
            group.wake()

    async def run(self) -> None:
        """Read, and keep followers' connections alive, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_for_ever())
            group.create_task(self._pulse_for_ever())

    async def place(self, after: int | None) -> int:
        """
        The number to follow from for a client that has seen *after*; may raise StoreUnavailableError.

        None means the next event; so does a number this log has not reached, which belongs to another log.
        """
        newest = await self._log.last()
        return newest if after is None else min(after, newest)

    async def follow(
        self, seen: int, *, instance_id: str | None = None, is_allowed: Callable[[], Awaitable[bool]] | None = None
    ) -> AsyncGenerator[bytes]:
        """
        The events after number *seen* as server-sent events, then each as it happens, until `stop`.

        It also ends when the database is away and something must be read from it: the client comes back by itself. With
        every heartbeat *is_allowed* is asked, and when it returns False the stream ends.
        """
        pulses = self._pulses
        self._metrics.event_streams.inc()
        group = self._join()
        try:
            yield GREETING
            while not self._stopped:
                arrival = group.arrival  # taken before reading: later events set it
                is_due, pulses = pulses != self._pulses, self._pulses
                if is_due and is_allowed is not None and not await is_allowed():
                    return
                frames = self._next(seen)
                if frames is None:
                    frames = [_frame(event) for event in await self._log.page(after=seen, limit=BATCH)]
                wanted = b"".join(f.text for f in frames if instance_id in (None, f.instance_id))
                if frames:
                    seen = frames[-1].seq
                if wanted:
                    yield wanted
                elif is_due:
                    yield HEARTBEAT
                elif not frames:
                    await arrival.wait()
        except StoreUnavailableError:
            return
        finally:
            self._metrics.event_streams.dec()
            self._leave(group)

    def _next(self, seen: int) -> list[_Frame] | None:
        """The held events after *seen*; None when the database must be read."""
        if self._last is None:
            return None
        if seen >= self._last:
            return []
        if not self._held or seen + 1 < self._held[0].seq:
            return None
        newer = list(islice(reversed(self._held), self._last - seen))  # from the end, where most followers read
        return newer[: -BATCH - 1 : -1]

    async def _read_for_ever(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._read()
            except Exception as error:  # noqa: BLE001  # the outermost frame: read again after any error
                log.warning("streams.interrupted", reason=repr(error))
                self._woken.set()
                await self._clock.sleep(RETRY_SECONDS)
            await self._clock.sleep(self._pause_seconds * (1 + len(self._groups) / 10))
            await is_set_within(self._followed, UNFOLLOWED_SECONDS, self._clock)

    async def _read(self) -> None:
        if self._last is None or not self._groups:
            self._last = await self._log.last()
            self._held.clear()
            await self._announce()
            return
        while found := await self._log.page(after=self._last, limit=BATCH):
            self._held.extend(_frame(event) for event in found)
            self._last = found[-1].seq
            await self._announce()

    async def _pulse_for_ever(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_SECONDS)
            self._pulses += 1
            await self._announce()

    def _join(self) -> _Group:
        """A group with room for one more."""
        if not self._groups or self._groups[-1].members >= TOGETHER:
            self._groups.append(_Group())
        self._groups[-1].members += 1
        self._followed.set()
        return self._groups[-1]

    def _leave(self, group: _Group) -> None:
        group.members -= 1
        if not group.members:
            self._groups.remove(group)
        if not self._groups:
            self._followed.clear()

    async def _announce(self) -> None:
        """Wake every follower, group by group."""
        for group in list(self._groups):
            group.wake()
            await asyncio.sleep(0)  # noqa: TID251  # one turn of the loop, without delay


def _frame(event: EventDetails) -> _Frame:
    """One event as a server-sent event; without a type, so that a browser's `onmessage` gets it."""
    text = b"id: %d\ndata: %b\n\n" % (event.seq, msgspec.json.encode(event))
    return _Frame(event.seq, event.instance_id, text)
