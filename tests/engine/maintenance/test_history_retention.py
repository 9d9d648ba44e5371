"""What is older than the retention is deleted, in steps, and nothing that is still needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.clock.clocks import SteppedClock
from support.engines.audit_lines import LINE
from support.engines.event_env import EventEnv
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.engine.events.log import EventLog
from corral.engine.maintenance.retention import STEP, sweep_history
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import JobId, JobRun, Registry
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances, operations
from corral.store.tables.callers import audit

KEPT_FOR = timedelta(days=90)
RUN = JobRun(id=JobId(1), type="sweep_audit", payload={}, attempt=1)


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target, boot_seconds=2, pull_seconds=0) as engine:
        yield engine


async def sweep(database: Database, clock: SteppedClock) -> None:
    await sweep_history(database, clock, KEPT_FOR).handler(RUN)


async def test_an_instance_is_forgotten_so_long_after_its_end(engine: SteppedEngine) -> None:
    """With its operations and events; one that still runs keeps its record and its present operation."""
    ended, running = [await engine.request_create() for _ in range(2)]
    for each in (ended, running):
        await engine.until(each, Phase.READY)
    await engine.ask(OperationKind.RESTART, running)
    await engine.until(running, Phase.READY)
    engine.clock.advance(timedelta(days=1).total_seconds())
    await engine.request_delete(ended)
    await engine.until(ended, Phase.TERMINATED)
    last = await EventLog(engine.database).last()

    engine.clock.advance((KEPT_FOR - timedelta(hours=12)).total_seconds())
    await sweep(engine.database, engine.clock)
    async with engine.database.connection() as connection:
        assert set(await instances.by_ids(connection, [ended, running], [])) == {ended, running}
        assert [one.kind for one in await operations.of_instance(connection, running)] == [OperationKind.RESTART]

    engine.clock.advance(timedelta(days=1).total_seconds())
    await sweep(engine.database, engine.clock)
    async with engine.database.connection() as connection:
        assert set(await instances.by_ids(connection, [ended, running], [])) == {running}
        assert await operations.of_instance(connection, ended) == []
        assert [one.kind for one in await operations.of_instance(connection, running)] == [OperationKind.RESTART]
    assert [one.seq for one in await EventLog(engine.database).page(after=0, limit=500)] == [last]


async def test_numbers_continue_although_every_old_event_is_deleted(database: Database) -> None:
    """A reader that has seen the last number must see the next event."""
    clock = SteppedClock()
    env = EventEnv(database, clock)
    await env.create("a", "b", "c")
    last = await env.log.last()
    clock.advance(2 * KEPT_FOR.total_seconds())

    await sweep(database, clock)
    await env.create("d")

    assert [(one.seq, one.instance_id) for one in await env.log.page(after=last, limit=10)] == [(last + 1, "inst_d")]


async def test_an_event_stays_as_long_as_its_delivery(database: Database) -> None:
    """The delivery is sent, or shown, with it."""
    clock = SteppedClock()
    env = EventEnv(database, clock)
    await env.create("sent", url="https://hooks.example/")
    await env.create("unsent", "newest")
    clock.advance(2 * KEPT_FOR.total_seconds())

    await sweep(database, clock)

    assert [one.instance_id for one in await env.log.page(after=0, limit=10)] == ["inst_sent", "inst_newest"]


async def test_audit_lines_go_at_their_age_in_as_many_steps_as_needed(database: Database) -> None:
    """More than one statement deletes; the boundary itself is kept."""
    now = datetime(2030, 6, 1, tzinfo=UTC)
    old = [replace(LINE, at=now - KEPT_FOR - timedelta(seconds=1))] * (2 * STEP + 1)
    async with database.connection() as connection:
        await audit.append([*old, replace(LINE, at=now - KEPT_FOR), replace(LINE, at=now)]).run(connection)

    await sweep(database, SteppedClock(now))

    async with database.connection() as connection:
        assert [line.at for line in await audit.page(connection, after=0, limit=10)] == [now - KEPT_FOR, now]


async def test_a_sweep_that_an_earlier_release_enqueued_is_run(engine: SteppedEngine) -> None:
    """While jobs are paused one may wait through an upgrade; under another name it would be pending for ever."""
    registry = Registry()
    registry.add(sweep_history(engine.database, engine.clock, KEPT_FOR))
    left = NewJob(type="sweep_audit", payload={}, dedupe_key="every:sweep_audit")

    async with engine.database.connection() as connection:
        added = await JobQueue(engine.database, registry).add([left]).run(connection)

    assert len(added) == 1
