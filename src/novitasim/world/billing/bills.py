"""
The bill that a customer reads: charges cut into rows. Pure.

GPUs are settled by the hour, disks and storages by the UTC day. A row appears some time after its period; a longer
cycle adds up the rows of its period that have appeared. Weeks begin on Monday. A month that was paid in advance is
not part of the hourly bill.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from novitasim.world.billing import charges
from novitasim.world.billing.charges import DAY_SECONDS, HOUR_SECONDS, Charge, Kind
from novitasim.world.instance import Instance
from novitasim.world.world import World

_E5 = 100_000
_HOURS_IN_A_MONTH = 720


class Row(NamedTuple):
    """A row of the bill: one owner, one price, one period; *micros* is GPUs or GB times microseconds."""

    begin: int
    end: int
    kind: Kind
    owner: str
    unit_e5: int
    micros: int

    @property
    def quantity(self) -> Fraction:
        """GPUs or GB times seconds."""
        return Fraction(self.micros, charges.MICROS)

    @property
    def usd(self) -> Fraction:
        """US dollars, exactly."""
        return charges.usd_of(self.kind, self.micros, self.unit_e5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """An instance that was paid for months in advance."""

    instance: Instance
    begin: float
    end: float
    usd: Fraction


def _hour(at: int) -> tuple[int, int]:
    return at // HOUR_SECONDS * HOUR_SECONDS, at // HOUR_SECONDS * HOUR_SECONDS + HOUR_SECONDS


def _day(at: int) -> tuple[int, int]:
    return at // DAY_SECONDS * DAY_SECONDS, at // DAY_SECONDS * DAY_SECONDS + DAY_SECONDS


def _week(at: int) -> tuple[int, int]:
    begin, _ = _day(at)
    monday = begin - datetime.fromtimestamp(begin, UTC).weekday() * DAY_SECONDS
    return monday, monday + 7 * DAY_SECONDS


def month(at: int) -> tuple[int, int]:
    """The first second of the UTC month of an instant, and that of the next month."""
    first = datetime.fromtimestamp(at, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return int(first.timestamp()), int(following.timestamp())


CYCLES: dict[str, Callable[[int], tuple[int, int]]] = {"Hour": _hour, "Day": _day, "Week": _week, "Month": month}


def rows(world: World, now: float, *, cycle: str, since: int, until: int) -> list[Row]:
    """The rows whose settled parts begin in [since, until], oldest first; raises KeyError for an unknown cycle."""
    period_of = CYCLES[cycle]
    found: defaultdict[tuple[int, int, Kind, str, int], int] = defaultdict(int)
    for charge in charges.of_account(world, now):
        if charge.kind is Kind.GPU and world.instances[charge.owner].order.billing_mode == "monthly":
            continue
        for part in _settled(charge, since, until):
            if part.end + world.settings.bill_lag_seconds <= now and not _is_missing(world, part):
                begin, end = period_of(part.begin)
                if end - begin < part.end - part.begin:
                    begin, end = part.begin, part.end
                found[begin, end, part.kind, part.owner, part.unit_e5] += part.micros
    return [Row(*row, micros) for row, micros in sorted(found.items())]


def settled_usd(world: World, now: float) -> Fraction:
    """US dollars for all charges except those of the hours and days that are not over."""
    return sum(
        (
            charge.usd(until=int(now) // charge.kind.unit_seconds * charge.kind.unit_seconds)
            for charge in charges.of_account(world, now)
        ),
        Fraction(0),
    )


def subscriptions(world: World) -> list[Subscription]:
    """The instances that were paid by the month, oldest first."""
    return [
        Subscription(
            instance=instance,
            begin=instance.created_at,
            end=instance.created_at + max(instance.order.months, 1) * _HOURS_IN_A_MONTH * HOUR_SECONDS,
            usd=Fraction(instance.rate_e5 * _HOURS_IN_A_MONTH * max(instance.order.months, 1), _E5),
        )
        for instance in world.instances.values()
        if instance.order.billing_mode == "monthly"
    ]


def _settled(charge: Charge, since: int, until: int) -> Iterator[Row]:
    """The parts of a charge by hour or day, as far as they begin in [since, until]."""
    step = charge.kind.unit_seconds
    first = max(int(charge.begin) // step, -(-since // step))
    last = min(int(charge.end) // step, until // step)
    for number in range(first, last + 1):
        begin, end = number * step, (number + 1) * step
        micros = charge.micros(begin, end) * charge.quantity
        if micros:
            yield Row(begin, end, charge.kind, charge.owner, charge.unit_e5, micros)


def _is_missing(world: World, row: Row) -> bool:
    if row.owner in world.unbilled or not world.settings.bill_missing_percent:
        return row.owner in world.unbilled
    drawn = hashlib.blake2b(f"{world.seed}/{row.owner}/{row.kind}/{row.begin}".encode(), digest_size=4).digest()
    return int.from_bytes(drawn) % 100 < world.settings.bill_missing_percent
