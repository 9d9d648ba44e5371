"""Responses about costs, typed. Amounts are USD."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Amount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What something cost: between *low* and *high*."""

    usd: float
    low: float
    high: float


class CostGroup(Amount, frozen=True, kw_only=True, rename="camel"):
    """What one group cost."""

    key: str | None = None
    estimated: bool = False


class CostRest(Amount, frozen=True, kw_only=True, rename="camel"):
    """What the groups cost that are left out."""

    groups: int


class CostSummary(msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """What a period cost; the groups and the rest add up to the total."""

    since: datetime
    until: datetime
    total: Amount
    groups: list[CostGroup] = []
    rest: CostRest | None = None
    estimated: bool = False
