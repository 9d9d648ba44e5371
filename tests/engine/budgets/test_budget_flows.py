"""Budgets along the life of an instance: a dearer offer, a scheduled start, and the webhook of a budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta

import pytest
from support.engines.audit_lines import CONTEXT, LINE
from support.engines.engine_steps import REQUEST
from support.engines.fault_engine import SWEEP
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.budgets.budget import Budget, BudgetPeriod
from corral.domain.instance import CreateRequest, Instance
from corral.domain.leases.lease import Lease, Schedule
from corral.domain.lifecycle.phases import Phase
from corral.engine.commands.create import CreatedInstance
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

SPOT, ON_DEMAND = 180_000, 350_000
FALLBACK = replace(REQUEST, regions=("CN-HK-01",), spot_fallback=True)


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target) as engine:
        engine.clock.set_by(engine.sim.now() - engine.clock.now().timestamp())
        yield engine


async def put(engine: SteppedEngine, limit: int, period: BudgetPeriod = BudgetPeriod.TOTAL) -> None:
    await engine.parts.budgets.put(Budget(name="b", scope="all", period=period, limit_micro_usd=limit), LINE)


async def requested(engine: SteppedEngine, request: CreateRequest, lease: Lease | None = None) -> Instance:
    made = await engine.parts.create.create(request, CONTEXT, lease=lease)
    assert isinstance(made, CreatedInstance)
    return made.instance


async def used(engine: SteppedEngine) -> int:
    (found,) = await engine.parts.budgets.all()
    return found.spent + found.reserved


def without_spot(engine: SteppedEngine, instance: Instance) -> None:
    """The spot offers that *instance* expects are refused from now on, as if another had taken the last."""
    assert instance.placement is not None
    engine.sim.set_price(instance.placement.product_id, 35_000, 0)
    engine.parts.caches.registry.clear()


@pytest.mark.parametrize(("limit", "phase"), [(2 * ON_DEMAND, Phase.READY), (ON_DEMAND - 1, Phase.CREATING)])
async def test_a_dearer_offer_than_expected_is_reserved_before_it_is_taken(
    engine: SteppedEngine, limit: int, phase: Phase
) -> None:
    """Or it is not taken: the create waits, and says for which budget."""
    await put(engine, limit)
    made = await requested(engine, FALLBACK)
    assert await used(engine) == SPOT
    without_spot(engine, made)
    for _ in range(12):
        await engine.step()
    found = await engine.get(made.id)

    assert found.phase is phase
    if phase is Phase.READY:
        assert found.placement is not None
        assert found.placement.micro_usd == ON_DEMAND
        assert await used(engine) == ON_DEMAND
    else:
        assert engine.sim.instances() == []
        assert found.waiting is not None
        assert found.waiting.code == "BUDGET_EXCEEDED"
        assert await used(engine) == SPOT
        await put(engine, ON_DEMAND)
        await engine.until(made.id, Phase.READY)
        assert await used(engine) == ON_DEMAND


@pytest.mark.parametrize("is_made", [True, False])
async def test_a_create_in_doubt_is_counted_once_until_it_is_settled(engine: SteppedEngine, *, is_made: bool) -> None:
    """What its machine may have cost is paid out of its reservation, which stays in case that there is none."""
    await put(engine, 10 * SPOT)
    engine.sim.fault("error_500", on="list", count=None)
    engine.sim.fault("lost_reply" if is_made else "hang", on="create", done=is_made, seconds=0)
    made = await requested(engine, REQUEST)
    doubted = 0
    for _ in range(20):
        await engine.step(10)
        found = await engine.get(made.id)
        doubted += found.create_in_doubt
        (standing,) = await engine.parts.budgets.all()
        assert standing.spent + standing.reserved == SPOT
        await engine.parts.budget_sweep.sweep(SWEEP)
    assert doubted > 3
    engine.sim.no_more_faults()
    await engine.until(made.id, Phase.READY, seconds=10)
    assert await used(engine) == SPOT
    assert len(engine.sim.instances()) == 1
    await engine.request_delete(made.id)
    await engine.until(made.id, Phase.TERMINATED)
    (standing,) = await engine.parts.budgets.all()
    assert standing.reserved == 0


async def test_a_scheduled_start_waits_for_its_budget(engine: SteppedEngine) -> None:
    """It is refused like any other start, tried again every minute, and admitted once the budget begins again."""
    now = engine.clock.now()
    stop, start = now + timedelta(minutes=10), now + timedelta(minutes=20)
    schedule = Schedule(stop=f"{stop.minute} * * * *", start=f"{start.minute} * * * *")
    made = await requested(engine, REQUEST, Lease(schedule=schedule, grace=timedelta(minutes=1)))
    await engine.until(made.id, Phase.READY)
    while await engine.phase(made.id) is not Phase.EXITED:
        await engine.step(30)
    await put(engine, 50_000, BudgetPeriod.HOUR)
    while engine.clock.now() < start + timedelta(minutes=5):
        await engine.step(30)
    assert await engine.phase(made.id) is Phase.EXITED
    await put(engine, 300_000, BudgetPeriod.HOUR)
    await engine.step(60)
    await engine.step(60)

    assert await engine.phase(made.id) is not Phase.EXITED
    assert (await engine.get(made.id)).reservation is not None
