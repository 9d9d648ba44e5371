"""
Places for running jobs: so many at once, and fewer while a crowd of callers waits for answers.

A process that both serves and works has one core for both. Callers notice a tenth of a second, a job that begins a
second later nobody does; so in a crowd jobs make room. They never stop: some places stay open whatever comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

SHARE_IN_A_CROWD: Final = 0.2
"""Of the places, at least one. More, and callers wait for jobs; fewer, and a long crowd holds all work up."""


class Seats:
    """An asynchronous context manager: inside, one place is held. First come, first served."""

    def __init__(self, most: int, *, is_crowded: Callable[[], bool] = lambda: False) -> None:
        self._most = most
        self._most_in_a_crowd = max(1, int(most * SHARE_IN_A_CROWD))
        self._is_crowded = is_crowded
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Wait for a place."""
        if not self._waiting and self._has_room():
            self._taken += 1
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.cancelled():
                self._waiting.remove(called)
            else:  # called and called off in one moment: the place is another's
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the place back."""
        self._leave()

    def _leave(self) -> None:
        self._taken -= 1
        while self._waiting and self._has_room():
            self._taken += 1
            self._waiting.popleft().set_result(None)

    def _has_room(self) -> bool:
        return self._taken < (self._most_in_a_crowd if self._is_crowded() else self._most)
