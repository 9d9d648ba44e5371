"""
A day of the provider's bill against a day of usage, machine by machine. Pure.

Usage says what a machine cost at least and at most, because no observation shows exactly when it began or ended. So
a bill is right if it lies between the two at the recorded price. If it does not, time and price are compared
separately: the right time at another price is a change of the price, less than the least is a missing row, and more
than the most is what a person has to look at.

Amounts are whole numbers of micro-USD. Every difference belongs to one machine, so the differences and what the bill
has beside machines add up to the difference of the totals.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Final

from corral.domain.costs.bill import BillCategory, BillRow

HALF_CENT: Final = 5000
"""A bill that is not further than this from the usage is the same to the cent. Smaller, and rounding alone makes
differences; larger, and a machine that is billed for a minute too long is not seen."""
MOST_MACHINES: Final = 1000
"""That are kept of a day. Fewer leaves differences out; more makes the days of a large fleet slow to show."""
SECOND: Final = Decimal(1)
"""How much the time of one row may be off, because the provider bills by the second."""
HOUR: Final = Decimal(3600)
DAY: Final = Decimal(86_400)
MICRO_USD: Final = Decimal(1_000_000)


class BillOutcome(StrEnum):
    """What the comparison of one machine shows."""

    MATCH = "match"
    """The bill and the usage are the same to the cent."""
    WITHIN_BOUNDS = "within_bounds"
    """The bill is not more than the machine may have cost, and not less than it must have."""
    PRICE_CHANGED = "price_changed"
    """The time is right, and the price is another one than was recorded."""
    MISSING_BILL = "missing_bill"
    """The bill has less than the machine must have cost, or nothing."""
    OVER_BILLED = "over_billed"
    """The bill has more than the machine may have cost at the recorded price."""
    UNKNOWN_MACHINE = "unknown_machine"
    """A machine is billed of which there is no usage."""


EXPLAINED: Final = frozenset({BillOutcome.MATCH, BillOutcome.WITHIN_BOUNDS})
"""Outcomes that need no attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUsage:
    """The part of the usage of one machine that has one kind and one price, on one day."""

    provider_id: str
    instance_id: str | None
    is_gpu: bool
    """Whether it is about the GPUs of the machine, and not about its disk."""
    unit_price: Decimal
    """Micro-USD for one unit and one day."""
    is_estimated: bool
    low: Decimal
    """Units times seconds, at least."""
    mid: Decimal
    """The same as costs count it."""
    high: Decimal
    """At most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What usage costs: at least, as it is shown, and at most."""

    low: int = 0
    usd: int = 0
    high: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(low=self.low + other.low, usd=self.usd + other.usd, high=self.high + other.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineResult:
    """The comparison of one machine."""

    provider_id: str
    instance_id: str | None
    outcome: BillOutcome
    usage: Amounts
    billed: int
    because: str
    name: str | None = None
    """Its name at the provider, if it is an unknown machine that still exists."""
    is_orphan: bool = False
    """Whether it is an unknown machine that carries the name of this installation."""

    @property
    def difference(self) -> int:
        """What the bill has more than the usage."""
        return self.billed - self.usage.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The comparison of one day in UTC."""

    day: date
    usage: Amounts
    billed: int
    """For machines."""
    other: int
    """For what is no machine, such as network volumes."""
    paid: int | None
    """Of all of it, after vouchers; None if the bill does not say."""
    counts: Mapping[BillOutcome, int]
    """How many machines have each outcome."""
    machines: tuple[MachineResult, ...]
    """Those that the usage does not explain first, and of these the largest difference; at most MOST_MACHINES."""
    unreadable: int = 0
    """Rows of the bill that could not be read."""

    @property
    def is_complete(self) -> bool:
        """Whether every row that must be there was read: a bill that is late lacks some."""
        return not self.unreadable and not self.counts.get(BillOutcome.MISSING_BILL)

    @property
    def differing(self) -> int:
        """How many machines have a bill that the usage does not explain."""
        return sum(count for outcome, count in self.counts.items() if outcome not in EXPLAINED)


def reconcile(day: date, usage: Iterable[DayUsage], rows: Sequence[BillRow], *, unreadable: int = 0) -> Reconciliation:
    """Compare the *usage* of *day* with the *rows* of its bill."""
    used: defaultdict[str, list[DayUsage]] = defaultdict(list)
    for span in usage:
        used[span.provider_id].append(span)
    billed: defaultdict[str, list[BillRow]] = defaultdict(list)
    for row in rows:
        billed[row.owner_id].append(row)
    machines = {owner for owner, of_owner in billed.items() if owner in used or _is_machine(owner, of_owner)}
    results = [_compared(owner, used[owner], billed.get(owner, [])) for owner in sorted(used.keys() | machines)]
    results.sort(key=lambda each: (each.outcome in EXPLAINED, -abs(each.difference), each.provider_id))
    total = sum((each.usage for each in results), Amounts())
    paid = [row.paid_micro_usd for row in rows]
    return Reconciliation(
        day=day,
        usage=total,
        billed=sum(each.billed for each in results),
        other=sum(row.micro_usd for row in rows if row.owner_id not in machines),
        paid=sum(each for each in paid if each is not None) if None not in paid else None,
        counts=dict(Counter(each.outcome for each in results)),
        machines=tuple(results[:MOST_MACHINES]),
        unreadable=unreadable,
    )


def amounts(spans: Iterable[DayUsage]) -> Amounts:
    """What *spans* cost at their recorded prices, in whole micro-USD that contain the exact bounds."""
    low, mid, high = Decimal(0), Decimal(0), Decimal(0)
    for each in spans:
        low += each.low * each.unit_price / DAY
        mid += each.mid * each.unit_price / DAY
        high += each.high * each.unit_price / DAY
    return Amounts(low=math.floor(low), usd=round(mid), high=math.ceil(high))


def _is_machine(owner: str, rows: Sequence[BillRow]) -> bool:
    """Whether an owner without usage is a machine: only machines have rows for GPUs."""
    return owner != "" and any(row.category == BillCategory.GPU for row in rows)


def _compared(provider_id: str, spans: Sequence[DayUsage], rows: Sequence[BillRow]) -> MachineResult:
    usage, billed = amounts(spans), sum(row.micro_usd for row in rows)
    outcome, because = _judged(spans, rows, usage, billed)
    return MachineResult(
        provider_id=provider_id,
        instance_id=next((each.instance_id for each in spans if each.instance_id is not None), None),
        outcome=outcome,
        usage=usage,
        billed=billed,
        because=because,
    )


def _judged(spans: Sequence[DayUsage], rows: Sequence[BillRow], usage: Amounts, billed: int) -> tuple[BillOutcome, str]:
    if not spans:
        return BillOutcome.UNKNOWN_MACHINE, f"{_usd(billed)} USD are billed for a machine of which there is no usage"
    slack = sum(row.slack_micro_usd for row in rows) + HALF_CENT
    if abs(billed - usage.usd) <= HALF_CENT:
        return BillOutcome.MATCH, "the bill and the usage are the same to the cent"
    allowed = f"{_usd(usage.low)} to {_usd(usage.high)} USD"
    if usage.low - slack <= billed <= usage.high + slack:
        return BillOutcome.WITHIN_BOUNDS, f"the observations allow {allowed}"
    if not rows:
        return BillOutcome.MISSING_BILL, f"the bill has no row of it; the observations allow {allowed}"
    if (change := _price_change(spans, rows)) is not None:
        return BillOutcome.PRICE_CHANGED, change
    if billed < usage.low:
        return BillOutcome.MISSING_BILL, f"the bill lacks {_usd(usage.low - billed)} USD at least: it must be {allowed}"
    return (
        BillOutcome.OVER_BILLED,
        f"the bill has {_usd(billed - usage.high)} USD more than it may: it must be {allowed}",
    )


def _price_change(spans: Sequence[DayUsage], rows: Sequence[BillRow]) -> str | None:
    """The change of the price that explains the bill: the time is right, and so is the rest; None: there is none."""
    disk_prices = {each.unit_price for each in spans if not each.is_gpu}
    is_gpu = [row.category == BillCategory.GPU and row.unit_price not in disk_prices for row in rows]
    gpu_rows = [row for row, flag in zip(rows, is_gpu, strict=True) if flag]
    other_rows = [row for row, flag in zip(rows, is_gpu, strict=True) if not flag]
    times: defaultdict[Decimal, Decimal] = defaultdict(Decimal)
    doubt = Decimal(0)
    for row in gpu_rows:
        if row.unit_price is None or row.unit_price <= 0:
            return None
        times[row.unit_price] += row.micro_usd / row.unit_price * HOUR
        doubt += row.slack_micro_usd / row.unit_price * HOUR + SECOND
    gpu = [each for each in spans if each.is_gpu]
    recorded = {each.unit_price * HOUR / DAY for each in gpu}
    low, high = sum(each.low for each in gpu), sum(each.high for each in gpu)
    disk, billed_disk = (
        amounts(each for each in spans if not each.is_gpu),
        sum(row.micro_usd for row in other_rows),
    )
    slack = sum(row.slack_micro_usd for row in other_rows) + HALF_CENT
    is_time_right = low - doubt <= sum(times.values()) <= high + doubt
    is_rest_right = disk.low - slack <= billed_disk <= disk.high + slack
    if not is_time_right or not is_rest_right or set(times) == recorded:
        return None
    shown = ", ".join(f"{_hours(times[price])} GPU hours at {_usd(price)} USD" for price in sorted(times))
    before = ", ".join(_usd(price) for price in sorted(recorded))
    guess = ", which was an estimate" if any(each.is_estimated for each in gpu) else ""
    return f"billed {shown}; the recorded price is {before} USD{guess}"


def _usd(micro_usd: Decimal | int) -> str:
    return f"{micro_usd / MICRO_USD:.4f}".rstrip("0").rstrip(".")


def _hours(seconds: Decimal) -> str:
    return f"{seconds / HOUR:.2f}".rstrip("0").rstrip(".")
