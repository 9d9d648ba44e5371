"""The bill and the balance of the simulator, read over HTTP in every form they may have."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from support.clock.racing import RacingClock
from support.provider.guarding import Guarding, guarding

from corral.cloud.breaker import BreakerState
from corral.cloud.rate_limit.state import FIRST_LIMIT
from corral.domain.costs.bill import BillCategory, BillCycle
from corral.domain.errors import CircuitOpenError, CloudTransientError
from novitasim.server.clock import SteppedClock
from novitasim.testing import Simulated, start_simulator

DAY = datetime.fromtimestamp(SteppedClock.EPOCH, UTC)
NEXT_DAY = DAY + timedelta(days=1)


@asynccontextmanager
async def stage(**quirks: object) -> AsyncGenerator[tuple[Simulated, Guarding]]:
    """A simulator a day and ten minutes after one machine was created, and a client."""
    async with start_simulator() as sim:
        sim.set(**quirks)
        clock = RacingClock()
        async with (
            guarding(sim.base_url, clock, fixed=None, most_retries=0) as parts,
            clock.racing(is_busy=parts.is_busy),
        ):
            yield sim, parts


@pytest.mark.parametrize(
    ("quirks", "tolerance"),
    [
        ({}, 24),
        ({"bill_decimal_unit": "usd", "bill_numbers": "number", "bill_end": "exclusive"}, 24),
        ({"bill_decimals": False}, 2400),
        ({"bill_decimals": False, "bill_rounding": "nearest", "voucher_percent": 100}, 2400),
    ],
)
async def test_a_day_of_one_machine_adds_up_in_every_form(quirks: dict[str, object], tolerance: float) -> None:
    async with stage(**quirks) as (sim, parts):
        instance_id = await sim.create(rootfsSize=160)
        sim.advance(2 * 86_400)
        gpu = await parts.cloud.bill_rows(BillCategory.GPU, since=DAY, until=NEXT_DAY)
        disk = await parts.cloud.bill_rows(BillCategory.STORAGE, since=DAY, until=NEXT_DAY)
        day = await parts.cloud.bill_rows(BillCategory.GPU, since=DAY, until=NEXT_DAY, cycle=BillCycle.DAY)

    assert (len(gpu.rows), gpu.unreadable, len(disk.rows), len(day.rows)) == (24, 0, 1, 1)
    assert {row.owner_id for row in (*gpu.rows, *disk.rows)} == {instance_id}
    assert {row.unit_price for row in gpu.rows} == {350_000}
    billed = sum(row.micro_usd for row in gpu.rows)
    assert billed == pytest.approx(350_000 * (86_400 - 2) / 3600, abs=tolerance)
    assert disk.rows[0].micro_usd == pytest.approx(500_000 * (86_400 - 2) / 86_400, abs=tolerance)
    assert day.rows[0].micro_usd == pytest.approx(billed, abs=tolerance)


async def test_the_balance_is_in_micro_usd() -> None:
    async with stage(balance_usd=10) as (sim, parts):
        await sim.create()
        sim.advance(2 + 1.5 * 3600)
        balance = await parts.cloud.balance()

    assert balance.available_micro_usd == 10_000_000 - 525_000
    assert balance.cash_micro_usd is not None
    assert balance.pending_charges_micro_usd == balance.cash_micro_usd - balance.available_micro_usd


async def test_bill_calls_that_come_too_fast_slow_down_nothing_else() -> None:
    """LIST_BILL_TOO_FAST is a 429 of the billing service: the limit of the account says nothing about it."""
    async with stage(bill_interval_seconds=30) as (sim, parts):
        for expected in (None, CloudTransientError, CircuitOpenError):
            if expected is None:
                await parts.cloud.bill_rows(BillCategory.GPU, since=DAY, until=NEXT_DAY)
                continue
            with pytest.raises(expected):
                await parts.cloud.bill_rows(BillCategory.STORAGE, since=DAY, until=NEXT_DAY)
        await parts.cloud.clusters()
        snapshot = parts.guard.snapshot()
        calls = sim.calls()["endpoints"]["bills"]["outcomes"]

    assert snapshot.calls_per_minute == FIRST_LIMIT
    assert calls == {"200": 1, "429": 1}


@pytest.mark.parametrize("fault", ["error_500", "html", "truncated", "garbage", "wrong_shape"])
async def test_a_broken_billing_service_does_not_open_the_breaker(fault: str) -> None:
    async with stage() as (sim, parts):
        sim.fault(fault, on="bills", count=100)
        for _ in range(8):
            with pytest.raises(CloudTransientError):
                await parts.cloud.bill_rows(BillCategory.GPU, since=DAY, until=NEXT_DAY)
        await parts.cloud.clusters()

    assert parts.guard.snapshot().breaker is BreakerState.CLOSED
    assert parts.guard.snapshot().is_reachable
