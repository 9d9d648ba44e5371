"""
Which of several requests the budgets allow. Pure.

A request is admitted if for every budget that it belongs to the sum of what is spent, what is reserved and what it
wants is within the limit. Requests are admitted one after the other: each reserves before the next is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.domain.budgets.budget import BudgetPeriod, Standing
from corral.domain.errors import BudgetExceededError
from corral.domain.placement.pricing import usd, usd_text
from corral.domain.records import replace
from corral.domain.timing import iso

_EVERY: Final = {
    BudgetPeriod.HOUR: "an hour",
    BudgetPeriod.DAY: "a day",
    BudgetPeriod.MONTH: "a month",
    BudgetPeriod.TOTAL: "in all",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReservation:
    """What a create or start wants to reserve, and the scopes of its instance."""

    micro_usd: int
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRefusal:
    """The budget that refuses a request, as it stood then."""

    standing: Standing
    wanted: int


def admit(wanted: Sequence[WantedReservation], standings: Sequence[Standing]) -> list[BudgetRefusal | None]:
    """Why each request is refused, in order, by the first of *standings* that refuses it; None: it is admitted."""
    now = list(standings)
    outcomes: list[BudgetRefusal | None] = []
    for each in wanted:
        places = [place for place, one in enumerate(now) if one.budget.scope in each.scopes and one.budget.refuses]
        refusing = next((now[place] for place in places if exceeds(now[place], each.micro_usd)), None)
        if refusing is None:
            for place in places:
                now[place] = replace(now[place], reserved=now[place].reserved + each.micro_usd)
        outcomes.append(None if refusing is None else BudgetRefusal(standing=refusing, wanted=each.micro_usd))
    return outcomes


def exceeds(standing: Standing, wanted: int) -> bool:
    """Whether *wanted* more would exceed the limit, or nothing of it is left."""
    used = standing.spent + standing.reserved
    return used + wanted > standing.budget.limit_micro_usd or used >= standing.budget.limit_micro_usd


def refused(refusal: BudgetRefusal) -> BudgetExceededError:
    """The error for a request that a budget refuses."""
    one, budget = refusal.standing, refusal.standing.budget
    resets = "" if one.resets_at is None else f"; it begins again at {iso(one.resets_at)}"
    return BudgetExceededError(
        f"budget {budget.name!r} does not allow it: {usd_text(refusal.wanted)} would be reserved, and of its"
        f" {usd_text(budget.limit_micro_usd)} {_EVERY[budget.period]} {usd_text(one.spent)} are spent and"
        f" {usd_text(one.reserved)} reserved{resets}",
        details={
            "budget": budget.name,
            "limit": usd(budget.limit_micro_usd),
            "spent": usd(one.spent),
            "reserved": usd(one.reserved),
            "wanted": usd(refusal.wanted),
            "resetsAt": iso(one.resets_at),
        },
    )
