"""A budget: whose cost it limits, in which period, to how much, and what happens then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

EVERYTHING: Final = "all"
"""The scope of a budget for all that Corral manages."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When a period without a beginning began: before any usage."""


class BudgetPeriod(StrEnum):
    """How often a budget begins again from 0, by UTC."""

    HOUR = "hour"
    """At every full hour."""
    DAY = "day"
    """At midnight."""
    MONTH = "month"
    """At midnight before the first of the month."""
    TOTAL = "total"
    """Never: all that was ever recorded counts."""


class LimitAction(StrEnum):
    """What happens at the limit."""

    REFUSE = "refuse"
    """Creates and starts that could exceed it are refused."""
    STOP = "stop"
    """They are refused and, once it is spent, machines that run are stopped, unless they are protected."""
    NOTIFY = "notify"
    """Only events are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit on cost."""

    name: str
    scope: str
    """`all`, `label:KEY=VALUE` or `key:NAME`; always written in this one way, so that equal scopes are equal texts."""
    period: BudgetPeriod
    limit_micro_usd: int
    on_limit: LimitAction = LimitAction.REFUSE
    thresholds: tuple[Decimal, ...] = ()
    """The parts of the limit that have an event of their own, ascending."""

    @property
    def refuses(self) -> bool:
        """Whether requests are refused because of it."""
        return self.on_limit is not LimitAction.NOTIFY


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How much of a budget is used in the present period; in micro-USD."""

    budget: Budget
    spent: int
    """The most that it may have cost so far."""
    reserved: int = 0
    """What is set aside for creates and starts, less what these have cost since."""
    since: datetime
    resets_at: datetime | None
    """When the next period begins; None: never."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the whole limit is spent."""
        return self.spent >= self.budget.limit_micro_usd


def label_scope(key: str, value: str) -> str:
    """The scope of all instances with this label."""
    return f"label:{key}={value}"


def key_scope(name: str) -> str:
    """The scope of all instances that the key called *name* created."""
    return f"key:{name}"


def scopes_of(created_by: str | None, labels: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Every scope that an instance with these labels, created by that key, belongs to."""
    named = () if created_by is None else (key_scope(created_by),)
    return frozenset((EVERYTHING, *named, *(label_scope(key, value) for key, value in labels)))


def began_at(period: BudgetPeriod, now: datetime) -> datetime:
    """When the period that *now* is in began."""
    at = now.astimezone(UTC)
    match period:
        case BudgetPeriod.HOUR:
            return at.replace(minute=0, second=0, microsecond=0)
        case BudgetPeriod.DAY:
            return at.replace(hour=0, minute=0, second=0, microsecond=0)
        case BudgetPeriod.MONTH:
            return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        case BudgetPeriod.TOTAL:
            return EPOCH


def resets_at(period: BudgetPeriod, now: datetime) -> datetime | None:
    """When the next period begins; None: never."""
    began = began_at(period, now)
    match period:
        case BudgetPeriod.HOUR:
            return began + timedelta(hours=1)
        case BudgetPeriod.DAY:
            return began + timedelta(days=1)
        case BudgetPeriod.MONTH:
            return (began + timedelta(days=31)).replace(day=1)
        case BudgetPeriod.TOTAL:
            return None


def standing(budget: Budget, now: datetime, *, spent: int, reserved: int) -> Standing:
    """The standing of *budget* in the period that *now* is in."""
    return Standing(
        budget=budget,
        spent=spent,
        reserved=reserved,
        since=began_at(budget.period, now),
        resets_at=resets_at(budget.period, now),
    )
