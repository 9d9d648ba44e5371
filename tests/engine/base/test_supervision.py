"""An unexpected error ends one round of a long-lived task, never the task or the process."""

from __future__ import annotations

import asyncio

import structlog
from support.clock.clocks import SteppedClock
from support.clock.waiting import until

from corral.base.supervision import LONG_RUN_SECONDS, MOST_PAUSE_SECONDS, BackgroundTask, supervise


async def test_a_failing_task_is_restarted_with_growing_pauses() -> None:
    """Else a database that refuses everything would be asked thousands of times a second, or never again."""
    clock, start_step = SteppedClock(), list[float]()

    async def run() -> None:
        start_step.append(clock.monotonic())
        raise ValueError("of an unexpected kind")

    with structlog.testing.capture_logs() as lines:
        supervised = asyncio.create_task(supervise(BackgroundTask("fragile", run), clock))
        for count in range(1, 10):
            await until(lambda: len(start_step) == count)  # noqa: B023  # awaited within the same turn
            clock.advance(lines[-1]["again_in_seconds"])
        supervised.cancel()

    pauses = [line["again_in_seconds"] for line in lines]
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == MOST_PAUSE_SECONDS
    assert {(line["event"], line["task"], line["log_level"]) for line in lines} == {("task.failed", "fragile", "error")}
    assert all(isinstance(line["exc_info"], ValueError) for line in lines)


async def test_a_task_that_ran_for_long_starts_with_the_shortest_pause_again() -> None:
    """An error a day must not lead to half a minute without a leader."""
    clock, rounds = SteppedClock(), list[int]()

    async def run() -> None:
        rounds.append(len(rounds))
        if len(rounds) > 2:
            await clock.sleep(LONG_RUN_SECONDS + 1)
        raise TimeoutError

    with structlog.testing.capture_logs() as lines:
        supervised = asyncio.create_task(supervise(BackgroundTask("fragile", run), clock))
        await until(lambda: len(rounds) == 1)
        clock.advance(0.5)
        await until(lambda: len(rounds) == 2)
        clock.advance(1.0)
        await until(lambda: len(rounds) == 3)
        clock.advance(LONG_RUN_SECONDS + 2)
        await until(lambda: len(lines) == 3)
        supervised.cancel()

    assert [line["again_in_seconds"] for line in lines] == [0.5, 1.0, 0.5]


async def test_an_error_of_a_group_of_tasks_is_contained_too() -> None:
    """A task group raises a group of errors; the task around it must live on."""
    clock, rounds = SteppedClock(), list[int]()

    async def fail() -> None:
        raise KeyError("unforeseen")

    async def run() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())

    with structlog.testing.capture_logs():
        supervised = asyncio.create_task(supervise(BackgroundTask("group", run), clock))
        await until(lambda: len(rounds) == 1)
        await until(lambda: bool(clock.sleeping))
        clock.advance(0.5)
        await supervised

    assert rounds == [0, 1]
