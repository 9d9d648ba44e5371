"""
Keeping the long-lived tasks of a process alive.

Every task that runs until the end of the process is started through `supervise`. An unexpected error ends one round of
its work: it is logged with its traceback and the task starts again after a growing pause. No error of one task ends the
process or another task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.domain.timing import delay

FIRST_PAUSE_SECONDS: Final = 0.5
MOST_PAUSE_SECONDS: Final = 30.0
"""Shorter pauses fill the log while a task cannot work; longer ones delay its return after the cause is gone."""
LONG_RUN_SECONDS: Final = 60.0
"""A task that ran for this long before it failed starts with the shortest pause again."""


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """Work that runs until the end of the process; *run* is called again whenever it raised."""

    name: str
    run: Callable[[], Awaitable[None]]


async def supervise(task: BackgroundTask, clock: Clock) -> None:
    """Run *task* until it returns or is cancelled, restarting it with backoff after any error."""
    failures = 0
    while True:
        began = clock.monotonic()
        try:
            await task.run()
        except Exception as error:  # noqa: BLE001  # the purpose of this function: no error may end the process
            failures = 1 if clock.monotonic() - began > LONG_RUN_SECONDS else failures + 1
            pause = delay(failures, first=FIRST_PAUSE_SECONDS, most=MOST_PAUSE_SECONDS)
            log.error("task.failed", task=task.name, failures=failures, again_in_seconds=pause, exc_info=error)
        else:
            return
        await clock.sleep(pause)


def unless_done(task: asyncio.Task[None] | None) -> asyncio.Task[None] | None:
    """The task while it runs, else None; raises what it raised."""
    if task is None or not task.done():
        return task
    task.result()
    return None
