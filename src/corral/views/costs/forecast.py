"""What is billed now, where that leads, and the account, as the API shows them, in USD."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.costs.bill import Balance, BalanceReading
from corral.domain.costs.forecast import CostForecast, used_up_at
from corral.domain.costs.totals import dollars
from corral.domain.costs.usage import UsageCause
from corral.domain.placement.pricing import usd
from corral.domain.timing import iso
from corral.views.costs.costs import Amount, amount

PerHour = Annotated[float, Meta(description="USD per hour: everything that is billed now.", examples=[1.32])]


class CauseAmount(msgspec.Struct, rename="camel"):
    """What is billed now for one cause."""

    cause: Annotated[UsageCause, Meta(description="Why it is billed.", examples=["serving"])]
    machines: Annotated[int, Meta(description="How many machines.", examples=[4])]
    usd_per_hour: Annotated[float, Meta(description="USD per hour.", examples=[1.32])]
    so_far: Annotated[Amount, Meta(description="Since each of them began to be billed for this cause.")]


class MonthAmounts(msgspec.Struct, rename={"since": "from", "until": "to", "so_far": "soFar"}):
    """A calendar month in UTC."""

    since: Annotated[str, Meta(description="Its first instant.")]
    until: Annotated[str, Meta(description="The first instant of the next.")]
    so_far: Annotated[Amount, Meta(description="Up to now.")]
    expected: Annotated[Amount, Meta(description="At its end, if everything that is billed now stays.")]


class BudgetEnd(msgspec.Struct, rename="camel"):
    """When a budget is used up."""

    name: Annotated[str, Meta(description="The budget's name.", examples=["vision"])]
    usd_per_hour: Annotated[float, Meta(description="USD per hour, also of machines about to start.", examples=[0.36])]
    runs_out_at: Annotated[
        str | None, Meta(description="When it is used up at this rate; null: it is reset before, or lasts.")
    ]


class ForecastDetails(msgspec.Struct, rename="camel"):
    """What is billed now, and where that leads."""

    at: str
    usd_per_hour: PerHour
    causes: Annotated[list[CauseAmount], Meta(description="The same by cause, the most expensive first.")]
    month: Annotated[MonthAmounts, Meta(description="This month.")]
    budgets: Annotated[list[BudgetEnd], Meta(description="Every budget, by name.")]


class BalanceDetails(msgspec.Struct, rename="camel"):
    """The money of the account; null for what the provider does not say."""

    available_usd: Annotated[float, Meta(description="What can be spent.", examples=[52.5])]
    cash_usd: Annotated[float | None, Meta(description="What was paid in.", examples=[50.0])]
    credit_limit_usd: Annotated[float | None, Meta(description="The provider's credit.", examples=[0.0])]
    pending_charges_usd: Annotated[float | None, Meta(description="Charged and not settled yet.", examples=[0.25])]
    outstanding_invoices_usd: Annotated[float | None, Meta(description="Invoices not paid yet.", examples=[0.0])]


class AccountDetails(msgspec.Struct, rename="camel"):
    """The provider account, and how long its money lasts."""

    balance: Annotated[BalanceDetails | None, Meta(description="Null when the provider could not be asked.")]
    problem: Annotated[str | None, Meta(description="Why there is no balance.", examples=["the provider is failing"])]
    read_at: Annotated[str, Meta(description="When the provider was asked; at most a minute ago.")]
    usd_per_hour: PerHour
    runway_hours: Annotated[
        float | None,
        Meta(description="How long it lasts at this rate; null: for more than ten years.", examples=[39.5]),
    ]
    runs_out_at: Annotated[str | None, Meta(description="The same as a time.")]


def forecast_details(forecast: CostForecast) -> ForecastDetails:
    """What is shown of *forecast*."""
    return ForecastDetails(
        at=iso(forecast.at),
        usd_per_hour=dollars(forecast.per_hour),
        causes=[
            CauseAmount(
                cause=UsageCause(each.cause),
                machines=each.machines,
                usd_per_hour=dollars(each.per_hour),
                so_far=amount(each.so_far),
            )
            for each in forecast.causes
        ],
        month=MonthAmounts(
            since=iso(forecast.month.starts_at),
            until=iso(forecast.month.ends_at),
            so_far=amount(forecast.so_far),
            expected=amount(forecast.expected),
        ),
        budgets=[
            BudgetEnd(name=each.name, usd_per_hour=dollars(each.per_hour), runs_out_at=iso(each.exhausted_at))
            for each in forecast.budgets
        ],
    )


def account_details(reading: BalanceReading, forecast: CostForecast) -> AccountDetails:
    """What is shown of the account, at the cost of *forecast*."""
    balance = reading.balance
    left = None if balance is None else Fraction(balance.available_micro_usd)
    ends = None if left is None else used_up_at(left, per_hour=forecast.per_hour, now=forecast.at)
    return AccountDetails(
        balance=None if balance is None else _balance(balance),
        problem=reading.problem,
        read_at=iso(reading.read_at),
        usd_per_hour=dollars(forecast.per_hour),
        runway_hours=None if ends is None else (ends - forecast.at).total_seconds() / 3600,
        runs_out_at=iso(ends),
    )


def _balance(balance: Balance) -> BalanceDetails:
    return BalanceDetails(
        available_usd=usd(balance.available_micro_usd),
        cash_usd=_usd(balance.cash_micro_usd),
        credit_limit_usd=_usd(balance.credit_limit_micro_usd),
        pending_charges_usd=_usd(balance.pending_charges_micro_usd),
        outstanding_invoices_usd=_usd(balance.outstanding_invoices_micro_usd),
    )


def _usd(micro_usd: int | None) -> float | None:
    return None if micro_usd is None else usd(micro_usd)
