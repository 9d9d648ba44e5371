"""One machine and one day: what each difference between bill and usage is called, and how it is explained."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from corral.domain.costs.bill import BillRow
from corral.domain.costs.reconciliation import BillOutcome, DayUsage, Reconciliation, reconcile

DAY = date(2026, 10, 1)
MIDNIGHT = datetime(2026, 10, 1, tzinfo=UTC)
PRICE = Decimal(350_000)
DISK_PRICE = Decimal(5000)


def gpu(low: float, high: float, *, price: Decimal = PRICE, machine: str = "m", estimated: bool = False) -> DayUsage:
    """Usage of so many GPU hours."""
    return DayUsage(
        provider_id=machine,
        instance_id="inst-1",
        is_gpu=True,
        unit_price=price * 24,
        is_estimated=estimated,
        low=Decimal(str(low)) * 3600,
        mid=Decimal(str((low + high) / 2)) * 3600,
        high=Decimal(str(high)) * 3600,
    )


def disk(gb: int, hours: float) -> DayUsage:
    used = Decimal(str(hours)) * 3600 * gb
    return DayUsage(
        provider_id="m",
        instance_id="inst-1",
        is_gpu=False,
        unit_price=DISK_PRICE,
        is_estimated=False,
        low=used,
        mid=used,
        high=used,
    )


def row(
    hours: float,
    *,
    price: Decimal | None = PRICE,
    owner: str = "m",
    category: str = "gpu",
    amount: int | None = None,
    slack: int = 0,
) -> BillRow:
    shown = amount if amount is not None else round(Decimal(str(hours)) * (price or PRICE))
    return BillRow(
        owner_id=owner,
        category=category,
        product_name="RTX 4090 24GB",
        started_at=MIDNIGHT + timedelta(hours=1),
        micro_usd=shown,
        slack_micro_usd=slack,
        paid_micro_usd=shown,
        unit_price=price,
    )


def disk_row(usd: str, *, category: str = "cloud_storage") -> BillRow:
    return row(0, price=DISK_PRICE, category=category, amount=round(Decimal(usd) * 1_000_000))


def only(found: Reconciliation) -> tuple[BillOutcome, str]:
    (machine,) = found.machines
    return machine.outcome, machine.because


def test_the_same_to_the_cent_is_a_match() -> None:
    found = reconcile(DAY, [gpu(2.99, 3.01), disk(100, 24)], [row(1), row(2.01), disk_row("0.5")])

    assert only(found) == (BillOutcome.MATCH, "the bill and the usage are the same to the cent")
    assert (found.billed, found.other, found.is_complete, found.differing) == (1_553_500, 0, True, 0)


def test_what_the_observations_allow_is_within_bounds() -> None:
    found = reconcile(DAY, [gpu(2, 4)], [row(3.9)])

    assert only(found) == (BillOutcome.WITHIN_BOUNDS, "the observations allow 0.7 to 1.4 USD")
    assert found.differing == 0


@pytest.mark.parametrize("category", ["cloud_storage", "gpu"])
def test_the_right_time_at_another_price_is_a_change_of_the_price(category: str) -> None:
    rows = [row(13), row(11, price=Decimal(500_000)), disk_row("0.5", category=category)]

    found = reconcile(DAY, [gpu(23.9, 24.1), disk(100, 24)], rows)

    assert only(found) == (
        BillOutcome.PRICE_CHANGED,
        "billed 13 GPU hours at 0.35 USD, 11 GPU hours at 0.5 USD; the recorded price is 0.35 USD",
    )
    assert found.differing == 1


def test_an_estimated_price_is_named_as_one() -> None:
    found = reconcile(DAY, [gpu(5, 5, price=Decimal(0), estimated=True)], [row(5)])

    assert only(found) == (
        BillOutcome.PRICE_CHANGED,
        "billed 5 GPU hours at 0.35 USD; the recorded price is 0 USD, which was an estimate",
    )


@pytest.mark.parametrize(
    ("usage", "rows", "because"),
    [
        ([gpu(5, 6)], [], "the bill has no row of it; the observations allow 1.75 to 2.1 USD"),
        ([gpu(5, 6)], [row(3)], "the bill lacks 0.7 USD at least: it must be 1.75 to 2.1 USD"),
        (
            [gpu(5, 6), disk(100, 24)],
            [row(5, price=Decimal(250_000))],
            "the bill lacks 1 USD at least: it must be 2.25 to 2.6 USD",
        ),
    ],
)
def test_less_than_a_machine_must_have_cost_is_a_missing_bill(
    usage: list[DayUsage], rows: list[BillRow], because: str
) -> None:
    found = reconcile(DAY, usage, rows)

    assert only(found) == (BillOutcome.MISSING_BILL, because)
    assert not found.is_complete


def test_more_than_a_machine_may_have_cost_is_over_billed() -> None:
    """Also when the bill does not show a price, which would explain anything."""
    for rows in ([row(9)], [row(0, price=None, amount=3_150_000)]):
        found = reconcile(DAY, [gpu(5, 6)], rows)

        assert only(found) == (
            BillOutcome.OVER_BILLED,
            "the bill has 1.05 USD more than it may: it must be 1.75 to 2.1 USD",
        )


def test_a_machine_that_may_not_have_begun_needs_no_bill() -> None:
    assert only(reconcile(DAY, [gpu(0, 1)], []))[0] is BillOutcome.WITHIN_BOUNDS


def test_whole_numbers_of_the_bill_are_trusted_as_far_as_they_go() -> None:
    """24 rows that lose up to 1/10000 USD each, of a machine whose times are known exactly."""
    rows = [row(0, amount=349_700, slack=100) for _ in range(24)]

    assert only(reconcile(DAY, [gpu(24, 24)], rows))[0] is BillOutcome.WITHIN_BOUNDS


def test_a_machine_without_usage_is_unknown_and_what_is_no_machine_is_not_one() -> None:
    rows = [row(2, owner="x"), row(0, owner="volume", category="cloud_storage", amount=10), row(1, owner="")]

    found = reconcile(DAY, [], rows, unreadable=1)

    assert only(found) == (BillOutcome.UNKNOWN_MACHINE, "0.7 USD are billed for a machine of which there is no usage")
    assert (found.billed, found.other) == (700_000, 350_010)
    assert not found.is_complete


def test_what_vouchers_pay_is_not_a_difference() -> None:
    free = [replace(row(3), paid_micro_usd=0)]

    found = reconcile(DAY, [gpu(3, 3)], free)

    assert (only(found)[0], found.paid) == (BillOutcome.MATCH, 0)


def test_of_a_large_fleet_the_differences_are_kept() -> None:
    usage = [gpu(1, 1, machine=f"m{n}") for n in range(1200)]
    rows = [row(1, owner=f"m{n}") for n in range(1, 1200)]

    found = reconcile(DAY, usage, rows)

    assert found.counts == {BillOutcome.MATCH: 1199, BillOutcome.MISSING_BILL: 1}
    assert (len(found.machines), found.machines[0].provider_id) == (1000, "m0")
