"""A day of the provider's bill against the usage of that day, on the simulator's own bill."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from support.clock.waiting import until
from support.engines.audit_lines import LINE
from support.engines.billed_day import (
    HOUR,
    LAG,
    ON_DEMAND,
    RUN,
    a_day_of_everything,
    day_engine,
    pass_time,
    ready,
    to_hour,
)
from support.engines.runtime import settings_of
from support.engines.stepped_engine import SteppedEngine

from corral.cloud.novita.billing import translate
from corral.domain.costs.reconciled_days import LAST_RETRY, MOST_DAYS, RETRY, DayState, ReconciledDay
from corral.domain.costs.reconciliation import HALF_CENT, BillOutcome, MachineResult, Reconciliation
from corral.domain.errors import CloudTransientError
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.engine.build import build_engine
from corral.engine.costs import bill_reconciler
from corral.engine.costs.bill_reconciler import BillReconciler
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables.callers import audit
from novitasim.world import commands

DAY = date(2030, 1, 1)


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with day_engine(database, target) as engine:
        yield engine


def reconciler(engine: SteppedEngine, **settings: str) -> BillReconciler:
    """As a process that has just started would have it."""
    return build_engine(replace(engine.parts.runtime, settings=settings_of(**settings))).bill_reconciler


def machines(result: Reconciliation | None) -> dict[str, MachineResult]:
    assert result is not None
    return {each.provider_id: each for each in result.machines}


async def stored(engine: SteppedEngine) -> list[ReconciledDay]:
    return await reconciler(engine).days(100)


async def test_a_day_is_reconciled_to_the_cent_and_each_difference_is_explained(engine: SteppedEngine) -> None:
    by_name = await a_day_of_everything(engine)
    sim, ends = engine.sim, engine.sim.now() - LAG

    await reconciler(engine).reconcile_due(RUN)

    (day,) = await stored(engine)
    assert day.result is not None
    found = {name: machines(day.result)[machine] for name, machine in by_name.items()}
    assert len(found) == len(day.result.machines), "what never ran is not billed"
    assert {name: each.outcome for name, each in found.items()} == {
        **dict.fromkeys(["deleted", "stopped", "reclaimed", "failed", "orphan"], BillOutcome.MATCH),
        **dict.fromkeys(["unlisted orphan", "another team's"], BillOutcome.UNKNOWN_MACHINE),
        "price changed": BillOutcome.PRICE_CHANGED,
        "not in the bill": BillOutcome.MISSING_BILL,
    }
    assert found["price changed"].because == (
        "billed 13 GPU hours at 0.5 USD, 11 GPU hours at 0.7 USD; the recorded price is 0.5 USD"
    )
    assert [name for name, each in found.items() if each.is_orphan] == ["unlisted orphan"]
    assert found["unlisted orphan"].because.endswith("which makes it an orphan")
    charges = {bill.id: bill.charges for bill in sim.ledger().bills}
    for name, each in found.items():
        charged = float(sum(charge.usd(ends - 86_400, ends) for charge in charges[each.provider_id])) * 1_000_000
        assert each.billed == pytest.approx(0 if name == "not in the bill" else charged, abs=24)
        assert each.outcome is not BillOutcome.MATCH or abs(each.difference) <= HALF_CENT
        if each.outcome not in {BillOutcome.PRICE_CHANGED, BillOutcome.UNKNOWN_MACHINE}:
            assert each.usage.low <= charged <= each.usage.high
    assert sum(each.difference for each in found.values()) == day.result.billed - day.result.usage.usd

    assert day.retry_at == engine.clock.now() + RETRY, "rows may come later"
    sim.set_billed("", missing=False)
    await pass_time(engine, RETRY.total_seconds())
    await reconciler(engine).reconcile_due(RUN)
    (day,) = await stored(engine)
    outcome = machines(day.result)[by_name["not in the bill"]].outcome
    assert (outcome, day.attempts, day.retry_at) == (BillOutcome.MATCH, 2, None)


async def a_day_of_one_machine(engine: SteppedEngine) -> str:
    """The day is over and its bill complete."""
    instance_id, machine = await ready(engine)
    await to_hour(engine, 1)
    await engine.request_delete(instance_id)
    await engine.until(instance_id, Phase.TERMINATED)
    await pass_time(engine, 24 * HOUR - engine.clock.monotonic())
    return machine


async def test_a_day_is_reconciled_once_after_the_lag_of_the_bill(engine: SteppedEngine) -> None:
    """By whichever process comes first; a second one finds it done."""
    await a_day_of_one_machine(engine)
    await pass_time(engine, LAG - 1)
    await reconciler(engine).reconcile_due(RUN)
    assert await stored(engine) == []

    await pass_time(engine, 1)
    for _ in range(2):
        await reconciler(engine).reconcile_due(RUN)
    (day,) = await stored(engine)

    assert (day.attempts, day.retry_at, day.result is not None and day.result.counts) == (
        1,
        None,
        {BillOutcome.MATCH: 1},
    )


async def test_a_bill_that_is_not_filtered_by_category_is_not_counted_twice(engine: SteppedEngine) -> None:
    """Each answer then has the rows of all categories."""
    engine.sim.set(bill_category_filter=False)
    await a_day_of_one_machine(engine)
    await pass_time(engine, LAG)
    await reconciler(engine).reconcile_due(RUN)
    (day,) = await stored(engine)

    assert day.result is not None
    assert day.result.counts == {BillOutcome.MATCH: 1}


@pytest.mark.parametrize(("rootfs_gb", "outcome"), [(60, BillOutcome.UNKNOWN_MACHINE), (100, BillOutcome.OVER_BILLED)])
async def test_a_stopped_machine_that_others_run_between_two_listings_is_a_difference_of_its_instance(
    engine: SteppedEngine, rootfs_gb: int, outcome: BillOutcome
) -> None:
    """No listing shows it running, so no usage explains its bill."""
    instance_id, machine = await ready(engine, replace(ON_DEMAND, rootfs_gb=rootfs_gb))
    await engine.ask(OperationKind.STOP, instance_id)
    await engine.until(instance_id, Phase.EXITED)
    await to_hour(engine, 30)
    for command in (commands.start, commands.stop):
        command(engine.sim.world, engine.sim.world.instances[machine], engine.sim.now())
        await pass_time(engine, HOUR / 2)
    await to_hour(engine, 48)
    await pass_time(engine, LAG)
    day = await reconciler(engine).reconcile_day(DAY + timedelta(days=1))

    found = machines(day.result)[machine]
    assert (found.outcome, found.instance_id) == (outcome, instance_id)
    assert found.difference == pytest.approx(350_000 / 2, rel=0.01)


async def test_a_bill_is_read_and_compared_in_a_thread(engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have a hundred thousand rows, for which other requests must not wait for seconds."""
    threads: list[threading.Thread] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            threads.append(threading.current_thread())
            return function(*arguments, **named)

        return noted

    for module, name in ((translate, "bill_rows"), (bill_reconciler, "reconcile")):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    await a_day_of_one_machine(engine)
    await pass_time(engine, LAG)
    await reconciler(engine).reconcile_due(RUN)

    assert len(threads) == 3, "the rows of two categories are read, and compared with usage"
    assert threading.main_thread() not in threads


async def test_processes_that_reconcile_a_day_at_once_leave_one_result(engine: SteppedEngine) -> None:
    await a_day_of_one_machine(engine)
    await pass_time(engine, LAG)

    await asyncio.gather(*(reconciler(engine).reconcile_day(DAY) for _ in range(4)))

    (day,) = await stored(engine)
    assert (day.attempts, day.result is not None and day.result.counts) == (4, {BillOutcome.MATCH: 1})


async def test_a_machine_of_a_record_without_usage_is_named_by_its_record(engine: SteppedEngine) -> None:
    """As of a database from before usage was recorded."""
    machine = await a_day_of_one_machine(engine)
    await pass_time(engine, LAG)
    async with engine.database.connection() as connection:
        await connection.execute("DELETE FROM corral_usage")

    found = machines((await reconciler(engine).reconcile_day(DAY)).result)[machine]

    assert (found.outcome, found.instance_id, found.is_orphan) == (BillOutcome.UNKNOWN_MACHINE, "inst_1", False)
    assert found.because == ("0.35 USD are billed for a machine of which there is no usage; it belongs to inst_1")


async def test_without_the_setting_no_day_is_reconciled_by_itself(engine: SteppedEngine) -> None:
    await a_day_of_one_machine(engine)
    await pass_time(engine, LAG)

    await reconciler(engine, CORRAL_RECONCILE="false").reconcile_due(RUN)
    assert engine.sim.calls()["endpoints"].get("bills") is None

    line = replace(LINE, path="/api/costs/reconciliations")
    by_hand = await reconciler(engine, CORRAL_RECONCILE="false").reconcile_day(DAY, line)
    async with engine.database.connection() as connection:
        lines = await audit.page(connection, limit=10)
    assert (by_hand.state, by_hand.retry_at) == (DayState.RECONCILED, None)
    assert [each.path for each in lines].count(line.path) == 1


async def test_a_service_without_usage_asks_for_no_bill(engine: SteppedEngine) -> None:
    await pass_time(engine, 30 * HOUR)

    await reconciler(engine).reconcile_due(RUN)

    assert await stored(engine) == []


async def test_days_that_were_missed_are_reconciled_later(engine: SteppedEngine) -> None:
    """Of a week; each has one result."""
    await a_day_of_one_machine(engine)
    await pass_time(engine, 8 * 24 * HOUR + LAG)

    await reconciler(engine).reconcile_due(RUN)

    days = await stored(engine)
    assert [each.day for each in days] == [DAY + timedelta(days=8 - back) for back in range(MOST_DAYS)]


async def test_an_unreachable_bill_is_said_so_and_tried_again(engine: SteppedEngine) -> None:
    """Also by hand; what was known of the day stays, and after two days it is left at that."""
    machine = await a_day_of_one_machine(engine)
    await pass_time(engine, LAG)
    engine.sim.fault("error_500", on="bills", count=100)
    await slept(engine, reconciler(engine).reconcile_due(RUN))
    (day,) = await stored(engine)
    assert (day.state, day.result, day.retry_at) == (DayState.UNREACHABLE, None, engine.clock.now() + RETRY)
    assert day.reason is not None
    assert "bills" in day.reason

    await reconciler(engine).reconcile_due(RUN)
    assert (await stored(engine))[0].attempts == 1, "not before an hour has passed"
    engine.sim.no_more_faults()
    await pass_time(engine, RETRY.total_seconds())
    await reconciler(engine).reconcile_due(RUN)
    (day,) = await stored(engine)
    assert (day.state, day.reason, machines(day.result)[machine].outcome) == (
        DayState.RECONCILED,
        None,
        BillOutcome.MATCH,
    )

    engine.sim.fault("error_500", on="bills", count=100)
    await pass_time(engine, LAST_RETRY.total_seconds())
    with pytest.raises(CloudTransientError):
        await slept(engine, reconciler(engine).reconcile_day(DAY))
    kept = await reconciler(engine).day(DAY)
    assert kept is not None
    assert (kept.state, kept.result, kept.retry_at, kept.reason is None) == (
        DayState.RECONCILED,
        day.result,
        None,
        False,
    )


async def test_a_billing_service_that_was_called_too_fast_is_waited_for(engine: SteppedEngine) -> None:
    await a_day_of_one_machine(engine)
    await pass_time(engine, LAG)
    engine.sim.set(bill_interval_seconds=4)

    await slept(engine, reconciler(engine).reconcile_due(RUN))

    (day,) = await stored(engine)
    assert day.state is DayState.RECONCILED
    assert engine.sim.calls()["endpoints"]["bills"]["outcomes"] == {"200": 2, "429": 1}


async def test_whole_numbers_vouchers_and_volumes_make_no_difference(
    database: Database, target: DatabaseTarget
) -> None:
    quirks = {"bill_decimals": False, "voucher_percent": 40, "bill_disk_category": "gpu", "bill_numbers": "number"}
    async with day_engine(database, target, **quirks) as engine:
        storage = {"clusterId": "us-ca-6", "storageName": "s", "storageSize": 500}
        await engine.sim.ask("/networkstorage/create", storage)
        machine = await a_day_of_one_machine(engine)
        await pass_time(engine, LAG)
        found = (await reconciler(engine).reconcile_day(DAY)).result

    assert found is not None
    assert [(each.provider_id, each.outcome) for each in found.machines] == [(machine, BillOutcome.MATCH)]
    assert found.other == pytest.approx(1_000_000, abs=100)
    assert found.paid == pytest.approx((found.billed + found.other) * 0.6, rel=0.001)


async def slept(engine: SteppedEngine, work: Awaitable[Any]) -> Any:
    """The result of *work*, whose pauses pass at once."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await until(lambda: task.done() or engine.clock.sleeping > 0)
        await pass_time(engine, 0 if task.done() else 5)
    return await task
