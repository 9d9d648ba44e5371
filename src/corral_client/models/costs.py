"""Responses about costs, typed. Amounts are USD."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

ExportFormat = Literal["csv", "focus"]


class Amount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What something cost: between *low* and *high*."""

    usd: float
    low: float
    high: float


class DayCost(Amount, frozen=True, kw_only=True, rename="camel"):
    """What one day in UTC cost."""

    day: str
    """Such as 2026-11-17."""


class CostGroup(Amount, frozen=True, kw_only=True, rename="camel"):
    """What one group cost."""

    key: str | None = None
    estimated: bool = False
    days: list[DayCost] = []
    """If they were requested: the days on which it may have been billed."""


class CostRest(Amount, frozen=True, kw_only=True, rename="camel"):
    """What the groups cost that are left out."""

    groups: int
    days: list[DayCost] = []


class UnknownUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Usage that no amount contains: an earlier release did not record it."""

    before: datetime
    instances: int


class CostSummary(msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """What a period cost; the groups and the rest add up to the total."""

    since: datetime
    until: datetime
    total: Amount
    groups: list[CostGroup] = []
    rest: CostRest | None = None
    estimated: bool = False
    unknown: UnknownUsage | None = None


class CauseCost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is billed now for one cause, such as serving, idle or deleting."""

    cause: str
    machines: int
    usd_per_hour: float
    so_far: Amount
    """Since each of these spans began."""


class MonthForecast(
    msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to", "so_far": "soFar"}
):
    """A calendar month in UTC."""

    since: datetime
    until: datetime
    so_far: Amount
    expected: Amount
    """At its end, if everything that is billed now stays."""


class BudgetEnd(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When a budget is used up."""

    name: str
    usd_per_hour: float
    """Of what it counts."""
    runs_out_at: datetime | None = None
    """None when it is reset before, or lasts."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is billed now, and where that leads."""

    at: datetime
    usd_per_hour: float
    causes: list[CauseCost]
    month: MonthForecast
    budgets: list[BudgetEnd] = []


class Balance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The provider account's money."""

    available_usd: float
    cash_usd: float | None = None
    credit_limit_usd: float | None = None
    pending_charges_usd: float | None = None
    outstanding_invoices_usd: float | None = None


class Account(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The provider account: its balance, and how long that lasts."""

    balance: Balance | None
    """None when the provider could not be asked; `problem` says why."""
    problem: str | None = None
    usd_per_hour: float
    runway_hours: float | None = None
    runs_out_at: datetime | None = None
    """None when it lasts for more than ten years, or when the balance is not known."""


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
