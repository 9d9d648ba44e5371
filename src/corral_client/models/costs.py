"""Responses about costs, typed. Amounts are USD."""

from __future__ import annotations

from datetime import date, datetime

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


class MachineReconciliation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One machine of the provider's bill or of usage; *outcome* says how they compare and *reason* why."""

    novita_instance_id: str
    outcome: str
    usage: Amount
    billed: float
    difference: float
    reason: str
    instance_id: str | None = None
    name: str | None = None
    orphan: bool = False


class DayReconciliation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A day of usage compared with the provider's bill; without amounts while the bill could not be read."""

    day: date
    state: str
    attempted_at: datetime
    attempts: int = 1
    retry_at: datetime | None = None
    problem: str | None = None
    usage: Amount | None = None
    billed: float | None = None
    difference: float | None = None
    other: float | None = None
    paid: float | None = None
    counts: dict[str, int] = {}
    unreadable_rows: int = 0
    machines: list[MachineReconciliation] = []


class Reconciliations(msgspec.Struct, frozen=True, kw_only=True):
    """Days, the latest first."""

    reconciliations: list[DayReconciliation] = []
