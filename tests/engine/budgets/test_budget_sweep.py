"""The sweep over budgets: what is reported once a period, what is stopped and what is spared; and the balance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from asyncpg import CheckViolationError
from support.database.usage_rows import add_usage
from support.engines.audit_lines import CONTEXT, LINE
from support.engines.command_env import a_create_request
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.budgets.budget import Budget, BudgetPeriod, LimitAction
from corral.domain.errors import BudgetExceededError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import OperationKind
from corral.engine.build import build_engine
from corral.engine.commands.create import CreatedInstance
from corral.jobs.registry import JobId, JobRun
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.views.event import EventDetails

RUN = JobRun(id=JobId(1), type="sweep_budgets", payload={}, attempt=1, first=False)
USD = 1_000_000


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target) as engine:
        engine.clock.set_by(engine.sim.now() - engine.clock.now().timestamp())
        engine.clock.advance(3600)  # not at the first instant of a day
        engine.sim.advance(3600)
        yield engine


async def spend(engine: SteppedEngine, micro_usd: int) -> None:
    """A machine without a record was billed for the last second, at the price for this sum."""
    now = engine.clock.now()
    async with engine.database.connection() as connection:
        await connection.execute(
            "INSERT INTO corral_usage (provider_id, kind, cause, unit_price, quantity, estimated, started_earliest,"
            " started_latest, ended_earliest, ended_latest, confirmed_at, follows, product_name, region, billing_mode)"
            " VALUES ('m', 'gpu', 'orphan', $1, 1, false, $2, $2, $3, $3, $3, false, '', '', '')",
            micro_usd * 86_400,
            now - timedelta(seconds=1),
            now,
        )


def budget(limit: int, period: BudgetPeriod = BudgetPeriod.DAY, on_limit: LimitAction = LimitAction.NOTIFY) -> Budget:
    return Budget(
        name="day",
        scope="all",
        period=period,
        limit_micro_usd=limit,
        on_limit=on_limit,
        thresholds=(Decimal("0.5"), Decimal("0.8"), Decimal(1)),
    )


async def reports(engine: SteppedEngine) -> list[EventDetails]:
    found = await engine.parts.event_log.page(after=0, limit=500)
    return [each for each in found if each.instance_id is None]


def reported(events: list[EventDetails]) -> list[object]:
    return [each.data.get("threshold", each.event.value) for each in events]


async def test_thresholds_are_reported_once_a_period_by_any_number_of_processes(engine: SteppedEngine) -> None:
    """In order, also if several are passed at once, and again in the next period."""
    await engine.parts.budgets.put(budget(USD), LINE)
    other = build_engine(engine.parts.runtime)
    both = [engine.parts.budget_sweep, other.budget_sweep] * 3
    await asyncio.gather(*(each.sweep(RUN) for each in both))
    assert await reports(engine) == []
    await spend(engine, 600_000)
    await asyncio.gather(*(each.sweep(RUN) for each in both))
    assert reported(await reports(engine)) == [0.5]
    await spend(engine, 400_000)
    await asyncio.gather(*(each.sweep(RUN) for each in both))
    found = await reports(engine)

    assert reported(found) == [0.5, 0.8, 1.0, "budget.exhausted"]
    assert [each.seq for each in found] == sorted(each.seq for each in found)
    assert (found[0].instance_id, found[0].status, found[0].operation_id) == (None, None, None)
    assert found[0].data["budget"] == "day"
    assert found[0].data["spent"] == 0.6
    engine.clock.advance(86_400)
    await engine.parts.budget_sweep.sweep(RUN)
    assert len(await reports(engine)) == 4
    await spend(engine, 500_000)
    await engine.parts.budget_sweep.sweep(RUN)
    assert reported(await reports(engine))[4:] == [0.5]


async def test_another_limit_is_reported_again_and_the_same_is_not(engine: SteppedEngine) -> None:
    """A raised limit is a new one; setting the same again changes nothing."""
    await engine.parts.budgets.put(budget(USD), LINE)
    await spend(engine, 600_000)
    await engine.parts.budget_sweep.sweep(RUN)
    await engine.parts.budgets.put(budget(USD), LINE)
    await engine.parts.budget_sweep.sweep(RUN)
    assert reported(await reports(engine)) == [0.5]
    await engine.parts.budgets.put(budget(1_100_000), LINE)
    await engine.parts.budget_sweep.sweep(RUN)

    assert reported(await reports(engine)) == [0.5, 0.5]


async def test_an_error_of_one_budget_does_not_keep_another_from_being_judged(engine: SteppedEngine) -> None:
    """It is raised at the end, so that the job fails and is repeated."""
    for name in ("first", "second"):
        await engine.parts.budgets.put(replace(budget(USD), name=name), LINE)
    await spend(engine, 600_000)
    async with engine.database.connection() as connection:
        await connection.execute("ALTER TABLE corral_budgets ADD CHECK (name <> 'first' OR announced = '{}')")
    with pytest.raises(CheckViolationError):
        await engine.parts.budget_sweep.sweep(RUN)

    assert [each.data["budget"] for each in await reports(engine)] == ["second"]


async def test_a_sum_that_no_column_holds_exhausts_a_budget(engine: SteppedEngine) -> None:
    """A create is refused, and the forecast can be read."""
    await engine.parts.budgets.put(budget(USD, on_limit=LimitAction.REFUSE), LINE)
    async with engine.database.connection() as connection:
        await add_usage(connection, engine.clock.now() - timedelta(hours=1), unit_price=9 * 10**18, quantity=64)
    await engine.parts.budget_sweep.sweep(RUN)
    with pytest.raises(BudgetExceededError):
        await engine.parts.create.create(a_create_request("refused"), CONTEXT)
    (found,) = await engine.parts.budgets.all()

    assert found.is_exhausted
    assert reported(await reports(engine))[-1] == "budget.exhausted"
    assert (await engine.parts.forecasts.current()).budgets[0].exhausted_at is not None


async def created(engine: SteppedEngine, name: str, *, protected: bool = False) -> InstanceId:
    made = await engine.parts.create.create(a_create_request(name), CONTEXT, protected=protected)
    assert isinstance(made, CreatedInstance)
    await engine.until(made.instance.id, Phase.READY)
    return made.instance.id


async def test_a_spent_budget_stops_what_runs_and_spares_what_is_protected(engine: SteppedEngine) -> None:
    """By an ordinary stop of its own caller, as events and audit log show; starts are refused meanwhile."""
    first, second = await created(engine, "first"), await created(engine, "second", protected=True)
    await engine.parts.budgets.put(budget(2 * USD, on_limit=LimitAction.STOP), LINE)
    await engine.parts.budget_sweep.sweep(RUN)
    assert [await engine.phase(each) for each in (first, second)] == [Phase.READY, Phase.READY]
    await spend(engine, 2 * USD)
    await engine.parts.budget_sweep.sweep(RUN)
    await engine.until(first, Phase.EXITED)

    assert await engine.phase(second) is Phase.READY
    with pytest.raises(BudgetExceededError):
        await engine.ask(OperationKind.START, first)
    events = await engine.parts.event_log.page_of(first, after=0, limit=100)
    assert any("budget 'day' is spent" in each.reason for each in events)
    async with engine.database.connection() as connection:
        lines = await connection.fetch("SELECT who, method, route FROM corral_audit WHERE instance_id = $1", first)
    assert ("budget:day", "BUDGET", "stop") in [tuple(line) for line in lines]
    assert (await engine.get(first)).reservation is None


async def test_what_may_be_spent_refuses_creates_and_stops_nothing_until_an_observation_shows_it(
    engine: SteppedEngine,
) -> None:
    """After an outage the machine may have been gone for hours: it is not stopped by what it would have cost."""
    first = await created(engine, "first")
    await engine.parts.budgets.put(budget(USD, BudgetPeriod.TOTAL, LimitAction.STOP), LINE)
    engine.clock.advance(24 * 3600)  # and nothing is observed meanwhile
    engine.sim.advance(24 * 3600)
    await engine.parts.budget_sweep.sweep(RUN)
    (unclear,) = await engine.parts.budgets.all()
    with pytest.raises(BudgetExceededError):
        await engine.parts.create.create(a_create_request("second"), CONTEXT)
    assert (await engine.get(first)).goal is Goal.RUNNING
    await engine.step()
    await engine.parts.budget_sweep.sweep(RUN)

    assert unclear.spent > 4 * USD
    assert reported(await reports(engine))[-1] == "budget.exhausted"
    await engine.until(first, Phase.EXITED)


async def test_a_clock_that_is_set_ahead_stops_nothing(engine: SteppedEngine) -> None:
    """Though every machine seems to be as old: the provider's clock shows that it is not."""
    first = await created(engine, "first")
    await engine.parts.budgets.put(budget(USD, BudgetPeriod.TOTAL, LimitAction.STOP), LINE)
    engine.clock.set_by(24 * 3600)
    await engine.step()
    await engine.parts.budget_sweep.sweep(RUN)
    assert (await engine.get(first)).goal is Goal.RUNNING
    engine.sim.advance(24 * 3600)
    await engine.parts.budget_sweep.sweep(RUN)

    assert (await engine.get(first)).goal is Goal.STOPPED


async def test_usage_of_while_the_clock_was_ahead_ends_once_it_is_right_again(engine: SteppedEngine) -> None:
    """A machine that was stopped meanwhile costs no more, and one that began to run costs as much as any other."""
    first = await created(engine, "first")
    engine.clock.set_by(24 * 3600)
    await engine.step()
    second = await created(engine, "second")
    await engine.ask(OperationKind.STOP, first)
    await engine.until(first, Phase.EXITED)
    engine.clock.set_by(-24 * 3600)
    await engine.step()
    await engine.parts.budget_sweep.sweep(RUN)
    engine.clock.advance(12 * 3600)
    engine.sim.advance(12 * 3600)
    await engine.step()
    stopped, running = [(await engine.parts.costs.of_instance(each))[0] for each in (first, second)]

    assert stopped.high < 20_000
    assert 2_160_000 <= running.low <= running.high < 2_180_000


async def test_a_start_reserves_and_a_stop_releases(engine: SteppedEngine) -> None:
    """What an instance reserves is released when it is stopped, once, and reserved again with its start."""
    first = await created(engine, "first")
    price = (await engine.get(first)).placement
    assert price is not None
    await engine.parts.budgets.put(budget(USD, BudgetPeriod.TOTAL, LimitAction.REFUSE), LINE)
    (running,) = await engine.parts.budgets.all()
    assert running.spent > 0
    assert running.spent + running.reserved == price.micro_usd
    await engine.ask(OperationKind.STOP, first)
    await engine.until(first, Phase.EXITED)
    (stopped,) = await engine.parts.budgets.all()
    assert stopped.reserved == 0
    assert running.spent < stopped.spent < price.micro_usd
    await engine.ask(OperationKind.START, first)
    (started,) = await engine.parts.budgets.all()
    assert started.reserved == price.micro_usd
    await engine.ask(OperationKind.DELETE, first)
    await engine.until(first, Phase.TERMINATED)
    (gone,) = await engine.parts.budgets.all()
    assert gone.reserved == 0


async def test_a_reservation_ends_when_the_machine_has_cost_as_much(engine: SteppedEngine) -> None:
    """After an hour only what is spent counts, which goes on; the sweep removes the rest."""
    first = await created(engine, "first")
    await engine.parts.budgets.put(budget(USD, BudgetPeriod.TOTAL), LINE)
    engine.clock.advance(3600)
    engine.sim.advance(3600)
    await engine.step()
    (later,) = await engine.parts.budgets.all()
    await engine.parts.budget_sweep.sweep(RUN)
    (swept,) = await engine.parts.budgets.all()

    assert (later.reserved, swept) == (0, later)
    assert later.spent > 180_000
    assert (await engine.get(first)).reservation is None


async def test_a_low_balance_is_reported_once_until_it_lasts_again(engine: SteppedEngine) -> None:
    """Hours at the present cost; nothing is read while nothing costs money."""
    engine.sim.set(balance_usd=5)
    await engine.parts.balance_sweep.sweep(RUN)
    assert await reports(engine) == []
    await created(engine, "first")
    await engine.parts.balance_sweep.sweep(RUN)
    assert await reports(engine) == []
    engine.sim.set(balance_usd=1)
    await asyncio.gather(*(engine.parts.balance_sweep.sweep(RUN) for _ in range(4)))
    (found,) = await reports(engine)

    assert found.event.value == "account.low_balance"
    assert found.data["perHour"] == 0.18
    engine.sim.set(balance_usd=10)
    await engine.parts.balance_sweep.sweep(RUN)
    engine.sim.set(balance_usd=1)
    await engine.parts.balance_sweep.sweep(RUN)
    assert len(await reports(engine)) == 2
