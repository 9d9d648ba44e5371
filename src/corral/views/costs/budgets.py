"""Budgets as the API shows them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.budgets.budget import BudgetPeriod, LimitAction, Standing
from corral.domain.placement.pricing import usd
from corral.domain.timing import iso


class BudgetDetails(msgspec.Struct, rename="camel"):
    """A limit on cost, and how much of it is used in the present period; in USD."""

    name: str
    scope: Annotated[str, Meta(description="What it counts: `all`, `label:KEY=VALUE` or `key:NAME`.")]
    period: Annotated[BudgetPeriod, Meta(description="When it begins again from 0, by UTC; `total`: never.")]
    limit_usd: float
    on_limit: LimitAction
    thresholds: Annotated[list[float], Meta(description="Parts of the limit that are reported by an event.")]
    spent: Annotated[float, Meta(description="The most that it may have cost so far in this period.")]
    reserved: Annotated[float, Meta(description="Set aside for creates and starts, less what these cost since.")]
    resets_at: Annotated[str | None, Meta(description="When its next period begins; null: never.")]


class BudgetList(msgspec.Struct):
    """Every budget, by name."""

    budgets: list[BudgetDetails]


def budget_details(standing: Standing) -> BudgetDetails:
    """How a budget stands."""
    budget = standing.budget
    return BudgetDetails(
        name=budget.name,
        scope=budget.scope,
        period=budget.period,
        limit_usd=usd(budget.limit_micro_usd),
        on_limit=budget.on_limit,
        thresholds=[float(each) for each in budget.thresholds],
        spent=usd(standing.spent),
        reserved=usd(standing.reserved),
        resets_at=iso(standing.resets_at),
    )
