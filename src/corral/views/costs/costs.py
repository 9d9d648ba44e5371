"""Costs as the API shows them, in USD."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction
from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.costs.totals import Cost, CostGroup, UnknownUsage, dollars
from corral.domain.timing import iso
from corral.views.schemas import InstanceCost

Usd = Annotated[
    float, Meta(description="USD: every time that is not known exactly is taken to be in the middle of its bounds.")
]
Low = Annotated[float, Meta(description="USD: it cost this at least.")]
High = Annotated[float, Meta(description="USD: it cost this at most.")]
Estimated = Annotated[
    bool, Meta(description="Whether a part has today's price, because the price that was agreed is not known.")
]


class Amount(msgspec.Struct, rename="camel"):
    """What something cost."""

    usd: Usd
    low: Low
    high: High


class DayAmount(msgspec.Struct, rename="camel"):
    """What one day cost."""

    day: Annotated[str, Meta(description="In UTC.")]
    usd: Usd
    low: Low
    high: High


Days = Annotated[list[DayAmount], Meta(description="With `perDay`: the days on which it may have been billed.")]


class GroupAmount(msgspec.Struct, rename="camel"):
    """What one group cost."""

    key: Annotated[
        str | None,
        Meta(
            description="An instance's id, the name of a key, a product, a region, a cause, a day or a label's value;"
            " null: what has none."
        ),
    ]
    usd: Usd
    low: Low
    high: High
    estimated: Estimated
    days: Days


class RestAmount(msgspec.Struct, rename="camel"):
    """What the groups cost that are left out."""

    groups: Annotated[int, Meta(description="How many they are.")]
    usd: Usd
    low: Low
    high: High
    days: Days


class UnknownAmount(msgspec.Struct):
    """Usage that no amount contains: an earlier release did not record it, and its event log does not show it."""

    before: Annotated[str, Meta(description="All of it was before this.")]
    instances: Annotated[int, Meta(description="Of so many instances, and of any that were deleted before.")]


class CostDetails(msgspec.Struct, rename={"since": "from", "until": "to"}):
    """What a period cost."""

    since: Annotated[str, Meta(description="Where the period begins.")]
    until: Annotated[str, Meta(description="Where it ends.")]
    total: Annotated[Amount, Meta(description="All of it; the groups and the rest add up to it.")]
    groups: Annotated[list[GroupAmount], Meta(description="The most expensive first; days in their order.")]
    rest: Annotated[RestAmount | None, Meta(description="Null if no group is left out.")]
    estimated: Estimated
    unknown: Annotated[UnknownAmount | None, Meta(description="Null if all usage of the period is known.")]


def cost_details(
    since: datetime,
    until: datetime,
    total: Cost,
    groups: Iterable[CostGroup],
    *,
    rest: CostGroup,
    rest_groups: int,
    unknown: UnknownUsage | None,
) -> CostDetails:
    """What is shown of a period; *rest* is the sum of the *rest_groups* groups that are left out."""
    lacking = None if unknown is None else UnknownAmount(before=iso(unknown.before), instances=unknown.instances)
    left_out = RestAmount(groups=rest_groups, days=_days(rest), **_numbers(rest.cost)) if rest_groups else None
    return CostDetails(
        since=iso(since),
        until=iso(until),
        total=amount(total),
        groups=[
            GroupAmount(key=group.key, estimated=group.cost.is_estimated, days=_days(group), **_numbers(group.cost))
            for group in groups
        ],
        rest=left_out,
        estimated=total.is_estimated,
        unknown=lacking,
    )


def instance_cost(cost: Cost, per_hour: Fraction) -> InstanceCost:
    """What one instance cost so far; *per_hour* is in micro-USD."""
    return InstanceCost(
        so_far=dollars(cost.usd), low=dollars(cost.low), high=dollars(cost.high), per_hour=dollars(per_hour)
    )


def amount(cost: Cost) -> Amount:
    """*cost* in USD."""
    return Amount(**_numbers(cost))


def _days(group: CostGroup) -> list[DayAmount]:
    return [DayAmount(day=day.key or "", **_numbers(day.cost)) for day in group.days]


def _numbers(cost: Cost) -> dict[str, float]:
    return {"usd": dollars(cost.usd), "low": dollars(cost.low), "high": dollars(cost.high)}
