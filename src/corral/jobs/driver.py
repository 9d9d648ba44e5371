"""How PgQueuer reaches the database, and how its workers are woken."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Final

from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.domain.types import Channel
from pgqueuer.ports.driver import NotifyCallback

from corral.store.session.database import Pool

QUEUE: Final = "corral_pgqueuer"
CHANNEL: Final = Channel("corral_ch_pgqueuer")

WAKE: Final = json.dumps(
    {
        "channel": CHANNEL,
        "sent_at": "1970-01-01T00:00:00Z",
        "type": "table_changed_event",
        "operation": "update",
        "table": QUEUE,
    }
)
"""The payload of PgQueuer's own trigger when the queue changed; no reader uses the time."""


class ListenFirstDriver(AsyncpgPoolDriver):
    """
    A driver that sends no notification before it listens, and its statements over the connection that listens.

    PgQueuer checks its listener by a notification to itself, and may send the first one before it listens; that one is
    lost, and ten seconds later the listener counts as dead.

    asyncpg reads the types of PgQueuer's tables again on every connection that uses them, which takes the server 10 ms
    each: by the pool, every connection of it would.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._listens = asyncio.Event()
        self._callback: NotifyCallback | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._one_at_a_time = asyncio.Lock()

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Return rows; over the pool before and after it listens, and when that connection is lost."""
        connection = self._listener_connection
        if connection is None or connection.is_closed():
            return await super().fetch(query, *args)
        async with self._one_at_a_time:
            return [dict(row) for row in await connection.fetch(query, *args)]

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """Listen, and from then on notify."""
        await super().add_listener(channel, callback)
        self._callback = callback
        self._listens.set()

    def wake_after(self, delay: timedelta) -> None:
        """
        Have the worker of this process look for jobs once *delay* has passed.

        PgQueuer computes how long it sleeps before it sleeps. A job that is put back after that, for less than the
        poll interval, would wait for the next poll: no notification announces that a job became due.
        """
        seconds = max(delay.total_seconds(), 0.0)
        timer: asyncio.TimerHandle = asyncio.get_running_loop().call_later(seconds, lambda: self._wake(timer))
        self._timers.add(timer)

    def _wake(self, timer: asyncio.TimerHandle) -> None:
        self._timers.discard(timer)
        if self._callback is not None:
            self._callback(WAKE)

    async def __aexit__(self, *error: object) -> None:
        """Release the listener, and wake no more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        await super().__aexit__(*error)

    async def notify(self, channel: str, payload: str) -> None:
        """Notify once we listen."""
        await self._listens.wait()
        await super().notify(channel, payload)
