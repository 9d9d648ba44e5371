"""
Many small writes as few large ones: what arrives while a commit is under way goes together into the next.

Alone, nothing waits: the first to come is committed at once. Under load the groups grow by themselves, because each
takes all that came during the one before, so the cost of a commit is shared by more the more there is to do.

Callers who ask again as soon as they are answered may end up in a large group and a small one that take turns; while
the large one is committed there is nearly nothing else to do. `in_halves` keeps the two alike: a group is then at most
half of those who wait or have just been answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

MOST_TOGETHER = 200
"""Larger groups gain little (a commit is then a small part of the work) and keep their first member waiting."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Batcher(Generic[Item, Outcome]):
    """
    Commits items in groups, one group at a time.

    *commit* answers one outcome for each item, in order; an error of it is the error of every item of that group and of
    no other.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]],
        *,
        most: int = MOST_TOGETHER,
        in_halves: bool = False,
    ) -> None:
        self._commit = commit
        self._most = most
        self._in_halves = in_halves
        self._latest = 0
        self._waiting: deque[tuple[Item, asyncio.Future[Outcome]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> Outcome:
        """
        Commit *item*, alone or with others, and return its outcome.

        Cancelling a waiter does not affect the other items: its item is left out unless it is already being committed.
        """
        result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await result

    async def _run(self) -> None:
        try:
            while group := self._next_group():
                await self._commit_group(group)
        finally:
            self._running = None
            while self._waiting:  # only when this task itself was cancelled: no waiter may wait for ever
                self._waiting.popleft()[1].cancel()

    def _next_group(self) -> list[tuple[Item, asyncio.Future[Outcome]]]:
        group: list[tuple[Item, asyncio.Future[Outcome]]] = []
        half = (len(self._waiting) + self._latest + 1) // 2
        most = min(half, self._most) if self._in_halves else self._most
        while self._waiting and len(group) < most:
            item, result = self._waiting.popleft()
            if not result.done():
                group.append((item, result))
        self._latest = len(group)
        return group

    async def _commit_group(self, group: Sequence[tuple[Item, asyncio.Future[Outcome]]]) -> None:
        try:
            outcomes = await self._commit([item for item, _ in group])
            for (_, result), outcome in zip(group, outcomes, strict=True):
                if not result.done():
                    result.set_result(outcome)
        except Exception as error:  # noqa: BLE001  # whatever it was, it is for those who wait
            for _, result in group:
                if not result.done():
                    result.set_exception(error)
        finally:
            for _, result in group:
                result.cancel()  # as above; a future that is done is not changed
