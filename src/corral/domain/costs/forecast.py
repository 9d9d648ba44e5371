"""
What the present rate of cost leads to: the cost by the end of the month, and when an amount is used up. Pure.

Every amount is in micro-USD. A forecast assumes that everything that is billed now stays billed at its price, and that
nothing is added: it is no estimate of what users will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

from corral.domain.costs.totals import Cost

LONGEST: Final = timedelta(days=3650)
"""A later end is not forecast: a price does not last that long, and the sum of a far date would overflow."""
_MICROSECONDS: Final = 3_600_000_000
"""In an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """A calendar month in UTC."""

    starts_at: datetime
    ends_at: datetime
    """Exclusive: when the next one starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledCause:
    """What is billed at one instant for one cause."""

    cause: str
    machines: int
    per_hour: Fraction
    so_far: Cost
    """Since each of these spans began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetForecast:
    """When a budget is used up at the present cost of its scope."""

    name: str
    per_hour: Fraction
    exhausted_at: datetime | None
    """None: it lasts until it is reset, or for longer than is forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostForecast:
    """What is billed now, and where that leads."""

    at: datetime
    causes: tuple[BilledCause, ...]
    """The most expensive first."""
    month: Month
    so_far: Cost
    """Of the month."""
    budgets: tuple[BudgetForecast, ...] = ()
    """By name."""

    @property
    def per_hour(self) -> Fraction:
        """What everything that is billed now costs in an hour."""
        return sum((each.per_hour for each in self.causes), Fraction(0))

    @property
    def expected(self) -> Cost:
        """The cost of the whole month, if everything that is billed now stays."""
        more = cost_by(self.month.ends_at, so_far=Fraction(0), per_hour=self.per_hour, now=self.at)
        return self.so_far + Cost(low=more, usd=more, high=more)


def month_of(instant: datetime) -> Month:
    """The month of *instant*, in UTC, as the provider bills."""
    start = instant.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return Month(starts_at=start, ends_at=(start + timedelta(days=31)).replace(day=1))


def cost_by(at: datetime, *, so_far: Fraction, per_hour: Fraction, now: datetime) -> Fraction:
    """The cost at *at*, which is not before *now*, when *so_far* grows by *per_hour* from *now* on."""
    microseconds = (at - now) // timedelta(microseconds=1)
    return so_far + per_hour * microseconds / _MICROSECONDS


def used_up_at(left: Fraction, *, per_hour: Fraction, now: datetime) -> datetime | None:
    """
    When *left* is used up at *per_hour*, to the microsecond above; *now* if nothing is left.

    None if it is not used up within LONGEST, or never.
    """
    if left <= 0:
        return now
    if per_hour <= 0:
        return None
    microseconds = -(-left * _MICROSECONDS // per_hour)
    return None if microseconds > LONGEST // timedelta(microseconds=1) else now + timedelta(microseconds=microseconds)


def exhausted_at(left: Fraction, *, per_hour: Fraction, now: datetime, resets_at: datetime | None) -> datetime | None:
    """When a budget with *left* is used up, as `used_up_at`; None if it is reset at *resets_at*, before that."""
    at = used_up_at(left, per_hour=per_hour, now=now)
    return None if at is None or (resets_at is not None and at >= resets_at) else at
