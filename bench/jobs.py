"""Jobs: how many a second, how soon after the commit, and what putting them in costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from bench.comparison import Baseline, Comparison, Sample
from bench.environment import Environment
from bench.figures import Figure, percentile
from bench.queues import Queue, both_queues
from corral.base.clock import Clock

JOBS = 2000
BATCH = 100
SINGLES = 100
ALONE = 60
FOLLOWING = 20
STEADY = 150
STEADY_PER_SECOND = 150
IDLE_SECONDS = 0.02
"""Between two lone jobs: enough for a worker to go back to sleep, whichever it is."""
WITHIN_SECONDS = 60.0

_PER_SECOND = Figure(name="jobs", unit="1/s", more_is_better=True)
_CPU = Figure(name="CPU of the worker a job", unit="µs")
_MEDIAN = Figure(name="median", unit="ms")
_P99 = Figure(name="p99", unit="ms")


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """All of them, on one pair of queues."""
    async with both_queues(environment) as (corral, bare):
        drained = [
            Comparison(
                title=f"run, {at_once} at once",
                work=f"{JOBS:,} waiting jobs that do nothing, by one worker with MAX_CONCURRENT_JOBS={at_once}, from "
                "the start of the first to that of the last; beside it PgQueuer with the same batch size and limit.",
                figures=(_PER_SECOND, _CPU),
                corral=partial(_drain, corral, at_once),
                baselines=(Baseline(name="PgQueuer", side=partial(_drain, bare, at_once)),),
                rounds=rounds,
            )
            for at_once, rounds in ((10, 5), (100, 9))
        ]
        yield [
            *drained,
            Comparison(
                title="commit to start, idle worker",
                work=f"{ALONE} jobs one at a time, from sending the COMMIT to the first line of the handler; beside it "
                "the same with PgQueuer.",
                figures=(_MEDIAN, _P99),
                corral=partial(_one_at_a_time, corral, environment.clock),
                baselines=(Baseline(name="PgQueuer", side=partial(_one_at_a_time, bare, environment.clock)),),
            ),
            Comparison(
                title="commit to start, follow-up",
                work=f"a chain of {FOLLOWING} jobs, each enqueued by the handler of the one before; measured alike.",
                figures=(_MEDIAN, _P99),
                corral=partial(_one_after_another, corral),
                baselines=(Baseline(name="PgQueuer", side=partial(_one_after_another, bare)),),
                rounds=9,
            ),
            Comparison(
                title=f"commit to start, {STEADY_PER_SECOND} jobs/s",
                work=f"{STEADY} jobs, each in a transaction of its own, committed at an even pace; measured alike.",
                figures=(_MEDIAN, _P99),
                corral=partial(_at_a_pace, corral, environment.clock),
                baselines=(Baseline(name="PgQueuer", side=partial(_at_a_pace, bare, environment.clock)),),
                warm_up=False,
            ),
            Comparison(
                title=f"enqueue, {BATCH} a transaction",
                work=f"{JOBS:,} jobs, {BATCH} in one statement in one transaction; beside it the same with PgQueuer.",
                figures=(_PER_SECOND,),
                corral=partial(_enqueue, corral, JOBS, BATCH),
                baselines=(Baseline(name="PgQueuer", side=partial(_enqueue, bare, JOBS, BATCH)),),
                rounds=15,
            ),
            Comparison(
                title="enqueue, one a transaction",
                work=f"{SINGLES} jobs, each in a transaction of its own, one after another on one connection.",
                figures=(_PER_SECOND,),
                corral=partial(_enqueue, corral, SINGLES, 1),
                baselines=(Baseline(name="PgQueuer", side=partial(_enqueue, bare, SINGLES, 1)),),
                rounds=15,
            ),
        ]


async def _drain(queue: Queue, at_once: int) -> Sample:
    await queue.clear()
    await _add(queue, JOBS, BATCH)
    marks: list[tuple[float, float]] = []
    done = asyncio.Event()
    started = 0

    async def deed(_number: int) -> None:
        nonlocal started
        started += 1
        if started in {1, JOBS}:
            marks.append((time.perf_counter(), time.process_time()))
        if started == JOBS:
            done.set()

    async with queue.working(deed, at_once=at_once):
        await asyncio.wait_for(done.wait(), WITHIN_SECONDS)
    (began, cpu_began), (ended, cpu_ended) = marks
    return {
        _PER_SECOND.name: (JOBS - 1) / (ended - began),
        _CPU.name: (cpu_ended - cpu_began) / (JOBS - 1) * 1e6,
    }


async def _one_at_a_time(queue: Queue, clock: Clock) -> Sample:
    await queue.clear()
    start_step: asyncio.Queue[float] = asyncio.Queue()

    async def deed(_number: int) -> None:
        start_step.put_nowait(time.perf_counter())

    waits = []
    async with queue.working(deed, at_once=10), queue.pool.acquire() as connection:
        for number in range(ALONE + 1):
            await clock.sleep(IDLE_SECONDS + number % 7 / 1000)
            transaction = connection.transaction()
            await transaction.start()
            await queue.enqueue(connection, [number])
            committing = time.perf_counter()
            await transaction.commit()
            waits.append(await asyncio.wait_for(start_step.get(), WITHIN_SECONDS) - committing)
    return _milliseconds(waits[1:])  # the first also waited for the worker to come up


async def _one_after_another(queue: Queue) -> Sample:
    await queue.clear()
    waits: list[float] = []
    committing = 0.0
    done = asyncio.Event()

    async def deed(number: int) -> None:
        nonlocal committing
        waits.append(time.perf_counter() - committing)
        if number == FOLLOWING:
            done.set()
            return
        async with queue.pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await queue.enqueue(connection, [number + 1])
            committing = time.perf_counter()
            await transaction.commit()

    async with queue.working(deed, at_once=10):
        await _add(queue, 1, 1)
        await asyncio.wait_for(done.wait(), WITHIN_SECONDS)
    return _milliseconds(waits[1:])  # the first followed no other


async def _at_a_pace(queue: Queue, clock: Clock) -> Sample:
    await queue.clear()
    committed: dict[int, float] = {}
    waits: list[float] = []
    done = asyncio.Event()

    async def deed(number: int) -> None:
        waits.append(time.perf_counter() - committed[number])
        if len(waits) == STEADY:
            done.set()

    async with queue.working(deed, at_once=10), queue.pool.acquire() as connection:
        began = time.perf_counter()
        for number in range(STEADY):
            await clock.sleep(began + number / STEADY_PER_SECOND - time.perf_counter())
            transaction = connection.transaction()
            await transaction.start()
            await queue.enqueue(connection, [number])
            committed[number] = time.perf_counter()
            await transaction.commit()
        await asyncio.wait_for(done.wait(), WITHIN_SECONDS)
    return _milliseconds(waits)


async def _enqueue(queue: Queue, jobs: int, batch: int) -> Sample:
    await queue.clear()
    began = time.perf_counter()
    await _add(queue, jobs, batch)
    return {_PER_SECOND.name: jobs / (time.perf_counter() - began)}


async def _add(queue: Queue, jobs: int, batch: int) -> None:
    async with queue.pool.acquire() as connection:
        for first in range(0, jobs, batch):
            async with connection.transaction():
                await queue.enqueue(connection, list(range(first, first + batch)))


def _milliseconds(waits: list[float]) -> Sample:
    return {_MEDIAN.name: percentile(waits, 0.5) * 1000, _P99.name: percentile(waits, 0.99) * 1000}
