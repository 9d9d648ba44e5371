"""What holds of every reconciliation: nothing is lost between the totals, and the truth is recognised."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Decimal

from hypothesis import given
from hypothesis import strategies as st

from corral.domain.costs.bill import BillRow
from corral.domain.costs.reconciliation import EXPLAINED, BillOutcome, DayUsage, reconcile

DAY = date(2026, 10, 1)
MIDNIGHT = datetime(2026, 10, 1, tzinfo=UTC)
UNIT = Decimal(100)

prices = st.integers(50_000, 3_000_000).map(Decimal)
owners = st.sampled_from(["a", "b", "c", ""])


@st.composite
def usages(draw: st.DrawFn) -> DayUsage:
    low, mid, high = sorted(draw(st.tuples(*[st.integers(0, 8 * 86_400)] * 3)))
    return DayUsage(
        provider_id=draw(st.sampled_from(["a", "b", "d"])),
        instance_id=draw(st.sampled_from(["inst-1", None])),
        is_gpu=draw(st.booleans()),
        unit_price=draw(prices) * 24,
        is_estimated=draw(st.booleans()),
        low=Decimal(low),
        mid=Decimal(mid),
        high=Decimal(high),
    )


@st.composite
def bill_rows(draw: st.DrawFn) -> BillRow:
    return BillRow(
        owner_id=draw(owners),
        category=draw(st.sampled_from(["gpu", "cloud_storage", "other"])),
        product_name="",
        started_at=MIDNIGHT,
        micro_usd=draw(st.integers(-1_000_000, 10**9)),
        slack_micro_usd=draw(st.sampled_from([0, 100])),
        paid_micro_usd=draw(st.none() | st.just(1)),
        unit_price=draw(st.none() | prices),
    )


@given(st.lists(usages(), max_size=8), st.lists(bill_rows(), max_size=12))
def test_differences_and_the_rest_of_the_bill_add_up_to_the_totals(usage: list[DayUsage], rows: list[BillRow]) -> None:
    found = reconcile(DAY, usage, rows)

    assert found.billed + found.other == sum(row.micro_usd for row in rows)
    assert sum(each.difference for each in found.machines) == found.billed - found.usage.usd
    assert {each.provider_id for each in found.machines} >= {each.provider_id for each in usage}
    assert len({each.provider_id for each in found.machines}) == len(found.machines)
    assert sum(found.counts.values()) == len(found.machines)
    assert found.differing == sum(each.outcome not in EXPLAINED for each in found.machines)
    for each in found.machines:
        assert (each.outcome is BillOutcome.UNKNOWN_MACHINE) == (each.provider_id not in {u.provider_id for u in usage})
        assert each.because


@st.composite
def billed_days(draw: st.DrawFn) -> tuple[DayUsage, list[tuple[datetime, Decimal]], Decimal]:
    """The usage of a machine, its true GPU seconds by the hour, and its price: the truth is within the bounds."""
    begin = draw(st.integers(0, 86_000))
    end = draw(st.integers(begin + 1, 86_400))
    gpus = draw(st.integers(1, 8))
    early, late = draw(st.integers(0, min(begin, 300))), draw(st.integers(0, 300))
    low = max(0, end - late - begin - draw(st.integers(0, 300)))
    high = end + draw(st.integers(0, 300)) - begin + early
    price = draw(prices)
    usage = DayUsage(
        provider_id="m",
        instance_id="inst-1",
        is_gpu=True,
        unit_price=price * 24,
        is_estimated=False,
        low=Decimal(low * gpus),
        mid=Decimal((low + high) * gpus) / 2,
        high=Decimal(high * gpus),
    )
    hours = [
        (MIDNIGHT + timedelta(hours=hour), Decimal(gpus * (min(end, hour * 3600 + 3600) - max(begin, hour * 3600))))
        for hour in range(24)
        if min(end, hour * 3600 + 3600) > max(begin, hour * 3600)
    ]
    return usage, hours, price


def rows_of(hours: list[tuple[datetime, Decimal]], price: Decimal, rounding: str | None) -> list[BillRow]:
    """The bill of those hours, in whole numbers of 1/10000 USD unless *rounding* is None."""
    found: list[BillRow] = []
    for at, seconds in hours:
        exact = seconds * price / 3600
        shown = exact if rounding is None else (exact / UNIT).quantize(Decimal(1), rounding) * UNIT
        found.append(
            BillRow(
                owner_id="m",
                category="gpu",
                product_name="",
                started_at=at,
                micro_usd=round(shown),
                slack_micro_usd=0 if rounding is None else 100,
                paid_micro_usd=None,
                unit_price=price,
            )
        )
    return found


roundings = st.sampled_from([None, ROUND_DOWN, ROUND_UP, ROUND_HALF_EVEN])


@given(billed_days(), roundings)
def test_a_true_bill_is_recognised_however_it_is_rounded(
    truth: tuple[DayUsage, list[tuple[datetime, Decimal]], Decimal], rounding: str | None
) -> None:
    usage, hours, price = truth

    (found,) = reconcile(DAY, [usage], rows_of(hours, price, rounding)).machines

    assert found.outcome in EXPLAINED


@given(billed_days(), roundings, st.sampled_from([Decimal("0.5"), Decimal(2), Decimal(3)]))
def test_another_price_for_the_true_time_is_never_taken_for_something_else(
    truth: tuple[DayUsage, list[tuple[datetime, Decimal]], Decimal], rounding: str | None, factor: Decimal
) -> None:
    usage, hours, price = truth

    (found,) = reconcile(DAY, [usage], rows_of(hours, price * factor, rounding)).machines

    assert found.outcome in EXPLAINED | {BillOutcome.PRICE_CHANGED}


@given(billed_days(), roundings, st.data())
def test_rows_that_are_missing_are_noticed_once_their_money_is(
    truth: tuple[DayUsage, list[tuple[datetime, Decimal]], Decimal], rounding: str | None, data: st.DataObject
) -> None:
    usage, hours, price = truth
    rows = rows_of(hours, price, rounding)
    kept = data.draw(st.lists(st.sampled_from(rows), unique_by=lambda row: row.started_at, max_size=len(rows) - 1))

    (found,) = reconcile(DAY, [usage], kept).machines

    lost = found.usage.low - found.billed
    assert found.outcome is (BillOutcome.MISSING_BILL if lost > 5000 + 100 * len(kept) else found.outcome)
    assert found.outcome in EXPLAINED | {BillOutcome.MISSING_BILL}
