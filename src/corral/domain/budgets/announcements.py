"""What is reported about a budget: each threshold, and that the limit is spent, once a period. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from corral.domain.budgets.budget import EPOCH, Standing
from corral.domain.events import EventType, FleetEvent
from corral.domain.placement.pricing import usd, usd_text
from corral.domain.timing import iso

CALLER: Final = "budget:"
"""The name of a caller that is a budget begins so, and the subject of its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What was reported about a budget."""

    since: datetime = EPOCH
    """The beginning of the period that it was reported in."""
    thresholds: tuple[Decimal, ...] = ()
    exhausted: bool = False


def subject_of(name: str) -> str:
    """What the events of the budget called *name* are about, and the caller of its commands."""
    return f"{CALLER}{name}"


def due(standing: Standing, before: Announced, now: datetime) -> tuple[Announced, list[FleetEvent]]:
    """What is reported after *before*, with its events in order; *before* itself if nothing is."""
    known = before if before.since == standing.since else Announced(since=standing.since)
    budget = standing.budget
    reached = [each for each in budget.thresholds if standing.spent >= each * budget.limit_micro_usd]
    new = [each for each in reached if each not in known.thresholds]
    events = [_threshold(standing, each, now) for each in new]
    if standing.is_exhausted and not known.exhausted:
        events.append(_exhausted(standing, now))
    if not events:
        return before, []
    after = Announced(
        since=standing.since,
        thresholds=tuple(sorted((*known.thresholds, *new))),
        exhausted=known.exhausted or standing.is_exhausted,
    )
    return after, events


def _threshold(standing: Standing, threshold: Decimal, now: datetime) -> FleetEvent:
    budget = standing.budget
    reason = (
        f"{usd_text(standing.spent)} are spent, {float(threshold * 100):g} % or more of the"
        f" {usd_text(budget.limit_micro_usd)} of budget {budget.name!r}"
    )
    data = {**_data(standing), "threshold": float(threshold)}
    return FleetEvent(
        type=EventType.BUDGET_THRESHOLD, subject=subject_of(budget.name), reason=reason, at=now, data=data
    )


def _exhausted(standing: Standing, now: datetime) -> FleetEvent:
    budget = standing.budget
    reason = (
        f"{usd_text(standing.spent)} are spent, all of the {usd_text(budget.limit_micro_usd)} of budget {budget.name!r}"
    )
    return FleetEvent(
        type=EventType.BUDGET_EXHAUSTED,
        subject=subject_of(budget.name),
        reason=reason,
        at=now,
        data=_data(standing),
    )


def _data(standing: Standing) -> dict[str, object]:
    budget = standing.budget
    return {
        "budget": budget.name,
        "scope": budget.scope,
        "period": budget.period.value,
        "onLimit": budget.on_limit.value,
        "limit": usd(budget.limit_micro_usd),
        "spent": usd(standing.spent),
        "reserved": usd(standing.reserved),
        "resetsAt": iso(standing.resets_at),
    }
