"""
A limit on running jobs, which is lower while many callers wait for responses.

A process that serves requests and runs jobs has one core for both. A caller notices a delay of a tenth of a second; a
job may start a second later. So while there are many callers, fewer jobs run, but never none.

Urgent jobs (stops and deletes) have a few places more, and are started before other waiting jobs: those may hold every
place for as long as the provider takes to answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

SHARE_IN_A_CROWD: Final = 0.2
"""Of the places, at least one. More, and callers wait for jobs; fewer, and long load from callers stops all jobs."""
URGENT_PLACES: Final = 4
"""
Places for urgent jobs beside all others, each with a database connection.

Without them a stop or delete waits until a create or probe ends, up to half a minute each; many more only cost
connections, because each of these jobs is one short call.
"""


class AdaptiveSemaphore:
    """Limits how many jobs run at once; waiting jobs are started urgent ones first, then by arrival."""

    def __init__(self, most: int, *, is_crowded: Callable[[], bool] = lambda: False) -> None:
        self._most = most
        self._most_in_a_crowd = max(1, int(most * SHARE_IN_A_CROWD))
        self._is_crowded = is_crowded
        self._taken = 0
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {True: deque(), False: deque()}

    @asynccontextmanager
    async def place(self, *, is_urgent: bool = False) -> AsyncGenerator[None]:
        """Hold one place for the length of the block; waits until there is one."""
        await self._enter(is_urgent=is_urgent)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, *, is_urgent: bool) -> None:
        queue = self._waiting[is_urgent]
        if not queue and self._has_room(is_urgent=is_urgent):
            self._taken += 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                queue.remove(granted)
            else:  # granted and cancelled in the same tick: release the place
                self._leave()
            raise

    def _leave(self) -> None:
        self._taken -= 1
        for is_urgent, queue in self._waiting.items():
            while queue and self._has_room(is_urgent=is_urgent):
                self._taken += 1
                queue.popleft().set_result(None)

    def _has_room(self, *, is_urgent: bool) -> bool:
        most = self._most_in_a_crowd if self._is_crowded() else self._most
        return self._taken < most + (URGENT_PLACES if is_urgent else 0)
