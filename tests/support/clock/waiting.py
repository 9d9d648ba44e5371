"""Waiting for something to become true, with a limit and without guessing how long it takes."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Final

FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 0.1
"""Longer, and tests wait for nothing; shorter, and their questions take the CPU from the process that they wait for."""


async def until(condition: Callable[[], object], *, within: float = 60.0, what: str = "it") -> None:
    """Return once *condition* answers something true; fail the test if it does not *within* seconds."""
    deadline, pause = time.monotonic() + within, FIRST_PAUSE_SECONDS
    while not await _answer(condition):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {within} s")
        await asyncio.sleep(pause)  # noqa: TID251  # polling a real process, not guessing its pace
        pause = min(pause * 1.3, LONGEST_PAUSE_SECONDS)


async def _answer(condition: Callable[[], object]) -> object:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer
