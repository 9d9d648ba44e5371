"""
The log, live: one reader a process, any number of followers.

The reader is woken by notices, and while there are followers it reads what is new once, encodes it once, and holds the
latest of it. A follower is only a number, the last event it was given: while what comes next is held it takes that, and
when it is not (it just came back, or it is slow) it reads the database at its own pace. So a follower costs the same
whatever its speed, and misses nothing.
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
"""Events handed to a follower at once; what one can have in memory unsent."""
HEARTBEAT_SECONDS = 15.0
PAUSE_SECONDS = 0.02
"""Between reads: under load, many commits are read (and numbered) together, and the delay is not noticeable."""
TOGETHER = 100
"""Followers that are woken in one turn of the loop: handing something on takes 10 µs each, and while five thousand get
theirs the rest of the process must have its turns. With each such group the reader also pauses a tenth longer."""
LEISURE_SECONDS = 1.0
"""Between reads without followers: they only number new events, so that the next follower need not number them all."""
RETRY_SECONDS = 1.0

GREETING: Final = b"retry: 1000\n\n"
"""Comes at once, so that a client knows it is connected; says how soon to come back after a loss."""
HEARTBEAT: Final = b": heartbeat\n\n"


class _Frame(NamedTuple):
    seq: int
    instance_id: str
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
        """The newest number read; None until the first look. `_held` ends with it, without gaps."""
        self._woken = asyncio.Event()
        self._woken.set()
        self._groups: list[_Group] = []
        self._followed = asyncio.Event()
        self._pulses = 0
        self._stopped = False

    def listen(self, notices: Notifications) -> None:
        """Look whenever *notices* tell of events, and when some may have been missed."""
        notices.subscribe(TOPIC, lambda _key: self.wake())
        notices.on_gap(self.wake)

    def wake(self) -> None:
        """Look for new events."""
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
                arrival = group.arrival  # taken before looking: what comes after the look sets it
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
        """What follows *seen*, as far as it is held; None when the database must be asked."""
        if self._last is None:
            return None
        if seen >= self._last:
            return []
        if not self._held or seen + 1 < self._held[0].seq:
            return None
        newer = list(islice(reversed(self._held), self._last - seen))  # from the end, where most followers are
        return newer[: -BATCH - 1 : -1]

    async def _read_for_ever(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._read()
            except Exception as error:  # noqa: BLE001  # the outermost frame: whatever it was, look again
                log.warning("streams.interrupted", reason=repr(error))
                self._woken.set()
                await self._clock.sleep(RETRY_SECONDS)
            await self._clock.sleep(self._pause_seconds * (1 + len(self._groups) / 10))
            await is_set_within(self._followed, LEISURE_SECONDS, self._clock)

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
        """Let every follower look, group by group."""
        for group in list(self._groups):
            group.wake()
            await asyncio.sleep(0)  # noqa: TID251  # a turn of the loop, and no time


def _frame(event: EventDetails) -> _Frame:
    """One event as it goes over the wire; without a type, so that a browser's plain `onmessage` gets it."""
    text = b"id: %d\ndata: %b\n\n" % (event.seq, msgspec.json.encode(event))
    return _Frame(event.seq, event.instance_id, text)
