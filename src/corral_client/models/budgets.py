"""Responses about budgets, typed; amounts are in USD."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Period = Literal["hour", "day", "month", "total"]
OnLimit = Literal["refuse", "stop", "notify"]


class Budget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A limit on cost, and how much of it is used in the present period."""

    name: str
    scope: str
    """`all`, `label:KEY=VALUE` or `key:NAME`."""
    period: str
    limit_usd: float
    on_limit: str
    thresholds: list[float] = []
    spent: float
    reserved: float
    resets_at: datetime | None = None
    """When the next period begins; None: never."""


class BudgetList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every budget, by name."""

    budgets: list[Budget]


class PlannedBudget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A budget that a create would have to fit into."""

    budget: str
    limit: float
    spent: float
    reserved: float
    wanted: float
    resets_at: datetime | None = None
    refuses: bool = False
    """Whether it would refuse the create now."""
