"""Costs in words and as rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from corral.cli.output import rate, span
from corral.cli.table import Layout
from corral_client import Account, Amount, CauseCost, CostSummary, Forecast

WITHOUT_VALUE: Final = "(none)"
_CENT: Final = 0.01
_WHOLE_MINUTES_FROM: Final = 120.0
"""Seconds; a longer time is shown without its seconds."""
_LONG: Final = timedelta(days=365)
_SHRUNK: Final = 12
"""The least width of the first column."""


def money(usd: float) -> str:
    """USD to the cent; less than a cent is not shown as nothing."""
    return "<$0.01" if 0 < usd < _CENT else f"${usd:,.2f}"


def report_table(report: CostSummary, by: str) -> tuple[list[Layout], list[list[str]]]:
    """The columns and rows of `corral costs`: each group and then all of them, amounts below each other."""
    total = report.total.usd
    rows = [_row(_name(group.key), group, total) for group in report.groups]
    rows.append(_row("total", report.total, total))
    names = [by.removeprefix("label:"), "cost", "share", "low", "high"]
    wide = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    columns = [Layout(name=names[0], shrinks_to=_SHRUNK)]
    columns += [Layout(name=names[at].rjust(wide[at]), rank=rank) for at, rank in ((1, 0), (2, 3), (3, 1), (4, 2))]
    return columns, [[row[0], *(row[at].rjust(wide[at]) for at in range(1, len(row)))] for row in rows]


def _name(key: str | None) -> str:
    """A group in a table; a label may be empty."""
    return WITHOUT_VALUE if key is None else key or '""'


def _row(key: str, cost: Amount, total: float) -> list[str]:
    share = f"{100 * cost.usd / total:.0f} %" if total else "-"
    return [key, money(cost.usd), share, money(cost.low), money(cost.high)]


def report_notes(report: CostSummary) -> list[str]:
    """What a person should know of *report*, a sentence each."""
    notes = [f"From {_minute(report.since)} to {_minute(report.until)} UTC."]
    if report.estimated:
        notes.append("Some prices are estimated: the provider's were not known.")
    return notes


def causes_table(causes: Sequence[CauseCost]) -> tuple[list[Layout], list[list[str]]]:
    """The columns and rows of `corral costs forecast`."""
    rows = [
        [one.cause.replace("_", " "), str(one.machines), rate(one.usd_per_hour), money(one.so_far.usd)]
        for one in causes
    ]
    columns = [Layout(name="cause"), Layout(name="machines"), Layout(name="now"), Layout(name="so far", rank=1)]
    return columns, rows


def forecast_lines(forecast: Forecast, account: Account, now: datetime) -> list[str]:
    """What is billed now and where that leads, a sentence each."""
    month = forecast.month
    name = month.since.astimezone(UTC).strftime("%B")
    return [
        f"Now {rate(forecast.usd_per_hour)}.",
        f"{name}: {money(month.so_far.usd)} so far, {money(month.expected.usd)} at its end if that stays.",
        balance_line(account, now),
        *(
            f"Budget {each.name}: used up in {_rounded((each.runs_out_at - now).total_seconds())} at this rate."
            for each in forecast.budgets
            if each.runs_out_at is not None
        ),
    ]


def balance_line(account: Account, now: datetime) -> str:
    """The balance of the account and how long it lasts, or why that is not known."""
    if account.balance is None:
        return f"The balance is not known: {account.problem or 'the provider could not be asked'}."
    amount = money(account.balance.available_usd)
    if account.runs_out_at is None:
        return f"Balance {amount}; it does not run out at this rate."
    if account.runs_out_at <= now:
        return f"Balance {amount}: it is used up."
    if account.runs_out_at - now > _LONG:
        return f"Balance {amount}; it lasts for more than a year at this rate."
    return f"Balance {amount}; it lasts {_rounded((account.runs_out_at - now).total_seconds())} at this rate."


def _rounded(seconds: float) -> str:
    return span(seconds // 60 * 60 if seconds >= _WHOLE_MINUTES_FROM else seconds)


def _minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
