"""Fleet metrics: present and past figures, judged by the provider's ledger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from fractions import Fraction

import pytest
from support.engines.engine_steps import REQUEST
from support.engines.fleets import a_fleet
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.cloud.rate_limit.rate_limiter import RateLimiter
from corral.cloud.rate_limit.state import RateLimiterState, encoded
from corral.domain.lifecycle.phases import Phase
from corral.engine.queries.fleet import Fleet, History
from corral.jobs.queue import JobStatus, NewJob
from corral.store.installation.rate_limit import DatabaseRateLimitStore
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

BOOT = 40


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target, boot_seconds=BOOT, pull_seconds=0) as engine:
        yield engine


@pytest.fixture
def fleet(engine: SteppedEngine) -> Fleet:
    return a_fleet(engine.database, engine.queue, engine.clock)


def spent(history: History) -> float:
    return sum(point.micro_usd for point in history.points) * history.step.total_seconds() / 3600 / 1_000_000


async def test_an_empty_fleet_counts_to_nothing(fleet: Fleet) -> None:
    """Every phase has a number from the beginning, so that no graph begins with a gap."""
    numbers = await fleet.numbers()

    assert numbers.count.instances == dict.fromkeys(Phase, 0)
    assert numbers.count.micro_usd == 0
    assert (numbers.ready.count, numbers.ready.whole.p50) == (0, None)
    assert spent(await fleet.history(24)) == 0


async def test_what_runs_is_counted_with_its_price(engine: SteppedEngine, fleet: Fleet) -> None:
    """From when it is pulled until it is gone; a second old at most."""
    instance_id = await engine.request_create()
    await engine.work()
    starting = await fleet.numbers()
    ready = await engine.until(instance_id, Phase.READY)
    running = await fleet.numbers()
    await engine.request_delete(instance_id)
    await engine.until(instance_id, Phase.TERMINATED)
    gone = await fleet.numbers()

    assert ready.placement is not None
    price = ready.placement.micro_usd
    assert price > 0
    counted = [(n.count.instances, n.count.micro_usd) for n in (starting, running, gone)]
    none = dict.fromkeys(Phase, 0)
    assert counted == [
        (none | {Phase.STARTING: 1}, Fraction(0)),
        (none | {Phase.READY: 1}, Fraction(price)),
        (none | {Phase.TERMINATED: 1}, Fraction(0)),
    ]


async def test_the_numbers_are_read_once_a_second(engine: SteppedEngine, fleet: Fleet) -> None:
    """However many ask."""
    before = await fleet.numbers()
    await engine.request_create()

    assert await fleet.numbers() is before
    engine.clock.advance(1)
    assert (await fleet.numbers()).count.instances[Phase.CREATING] == 1


async def test_time_to_ready_counts_instances_that_became_ready(engine: SteppedEngine, fleet: Fleet) -> None:
    """The whole wait, and of it the part that was ours: from the provider's word to ready."""
    began = engine.clock.now()
    ready = await engine.until(await engine.request_create(), Phase.READY)
    times = (await fleet.numbers()).ready

    assert ready.ready_at is not None
    assert times.count == 1
    assert times.whole.p50 == times.whole.p90 == ready.ready_at - began
    assert times.whole.p50 is not None
    assert times.lag.p50 is not None
    # The provider ran it 40 s after the call; looks are two seconds apart.
    assert times.whole.p50.total_seconds() == pytest.approx(BOOT + times.lag.p50.total_seconds(), abs=4)
    assert 0 <= times.lag.p50.total_seconds() <= 4

    engine.clock.advance(86_400)
    assert (await fleet.numbers()).ready.count == 0


async def test_the_past_costs_what_the_provider_billed(engine: SteppedEngine, fleet: Fleet) -> None:
    """Instances that came, went and stayed; nothing was sampled while they did."""
    requested = [await engine.request_create(replace(REQUEST, name=f"w{n}")) for n in range(3)]
    for instance_id in requested:
        await engine.until(instance_id, Phase.READY)
    await engine.steps(30, seconds=60)
    await engine.request_delete(requested[0])
    await engine.until(requested[0], Phase.TERMINATED)
    await engine.steps(90, seconds=60)

    ledger = engine.sim.ledger()
    price = ledger.usd / ledger.seconds  # all three are of one kind
    # Each edge lies in the middle of two looks, which are up to a minute apart.
    for hours in (3, 24):
        assert spent(await fleet.history(hours)) == pytest.approx(ledger.usd, abs=price * 3 * 60)
    # The last hour knows only two, and neither of them had any news in it.
    assert spent(await fleet.history(1)) == pytest.approx(price * 2 * 3600)


async def test_the_past_shows_when_instances_became_ready(engine: SteppedEngine, fleet: Fleet) -> None:
    """Each in its own step, and nothing where nothing happened."""
    ready = await engine.until(await engine.request_create(), Phase.READY)
    engine.clock.advance(1800)
    history = await fleet.history(1)

    assert len(history.points) == 60
    [step] = [point for point in history.points if point.ready.count]
    assert ready.ready_at is not None
    assert step.until - history.step < ready.ready_at <= step.until
    assert step.ready.whole.p50 is not None
    assert {p.ready.whole.p50 for p in history.points if p is not step} == {None}


async def test_the_backlog_is_as_old_as_its_oldest_due_job(engine: SteppedEngine, fleet: Fleet) -> None:
    """A job for later is pending, but not yet waiting."""
    async with engine.database.transaction() as connection:
        job = NewJob(type="monitor_instance", payload={"instanceId": "x"}, after=engine.observer.idle_interval)
        await engine.queue.add([job]).run(connection)
    later = (await fleet.numbers()).backlog
    await engine.request_create()
    engine.clock.advance(1)
    due = (await fleet.numbers()).backlog

    assert (later.by_status[JobStatus.PENDING], later.oldest_pending_age) == (1, None)
    assert due.by_status[JobStatus.PENDING] == 2
    assert due.oldest_pending_age is not None


async def test_the_calls_of_all_processes_are_counted(database: Database, engine: SteppedEngine, fleet: Fleet) -> None:
    """The rate limit is shared, so a process without calls reports the same use."""

    def take(_raw: bytes | None, now: float) -> tuple[bytes, None]:
        state, _ = RateLimiter(None).take(RateLimiterState(), now, changes=7, reads=2)
        return encoded(state), None

    await DatabaseRateLimitStore(database).revise(take)
    numbers = await fleet.numbers()

    assert (numbers.calls_last_minute, numbers.calls_per_minute) == (9, 300)
    assert engine.sim.instances() == []
