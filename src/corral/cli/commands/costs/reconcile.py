"""`corral costs reconcile`: the provider's bill against usage."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import typer

from corral.cli.options import Json, Url, connect
from corral.cli.output import clock_time, print_json, print_line, print_note
from corral.cli.table import Layout, print_fitted
from corral.domain.errors import MalformedError
from corral_client import DayReconciliation

commands = typer.Typer()

_EXPLAINED = ("match", "within_bounds")


@commands.command()
def reconcile(
    day: Annotated[
        str | None, typer.Argument(metavar="[DAY]", help="A day in UTC, such as 2026-11-17; yesterday if left out.")
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Do not ask the provider: show what is stored, of the last 31 days or DAY.")
    ] = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """Compare the provider's bill of a day with usage, machine by machine; Corral does so by itself every day."""
    wanted = None if day is None else _day(day)
    with connect(url) as client:
        days = client.costs.reconciliations(wanted) if stored else [client.costs.reconcile(wanted)]
    if json:
        print_json(days if stored else days[0])
    elif stored and wanted is None:
        _print_days(days)
    else:
        _print_machines(days[0])


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise MalformedError(f"{text} is not a day such as 2026-11-17") from error


def _print_days(days: list[DayReconciliation]) -> None:
    columns = ["day", "usage", "billed", "difference", "explained", "not explained", "compared"]
    rows = [
        [
            each.day.isoformat(),
            _usd(None if each.usage is None else each.usage.usd),
            _usd(each.billed),
            _usd(each.difference),
            str(_explained(each)),
            str(sum(each.counts.values()) - _explained(each)),
            clock_time(each.attempted_at) if each.billed is not None else f"no: {each.problem}",
        ]
        for each in days
    ]
    if not rows:
        print_line("No day was compared with the bill yet.")
        return
    ranks = {"usage": 3, "explained": 2, "compared": 1}
    print_fitted([Layout(name=name, rank=ranks.get(name, 0)) for name in columns], rows)


def _print_machines(day: DayReconciliation) -> None:
    if day.usage is None:
        print_line(f"The bill of {day.day} could not be read: {day.problem}")
        return
    columns = [
        Layout(name="machine"),
        Layout(name="instance", rank=2),
        Layout(name="usage", rank=1),
        Layout(name="billed"),
        Layout(name="difference"),
        Layout(name="outcome"),
        Layout(name="reason", shrinks_to=20),
    ]
    rows = [
        [
            each.novita_instance_id,
            each.instance_id or "-",
            _usd(each.usage.usd),
            _usd(each.billed),
            _usd(each.difference),
            each.outcome,
            each.reason,
        ]
        for each in day.machines
    ]
    if rows:
        print_fitted(columns, rows)
    found = f"{day.day}: billed {_usd(day.billed)}, usage {_usd(day.usage.usd)} ({_usd(day.usage.low)} to "
    print_line(f"{found}{_usd(day.usage.high)}), difference {_usd(day.difference)}.")
    if day.other:
        print_note(f"Beside machines, such as for volumes, the bill has {_usd(day.other)}.")
    if day.unreadable_rows:
        print_note(f"{day.unreadable_rows} rows of the bill could not be read.")
    if day.retry_at is not None:
        print_note(f"It is compared again after {clock_time(day.retry_at)}, because the bill may be late.")


def _explained(day: DayReconciliation) -> int:
    return sum(day.counts.get(outcome, 0) for outcome in _EXPLAINED)


def _usd(amount: float | None) -> str:
    if amount is None:
        return "-"
    shown = f"${abs(amount):.4f}"
    return shown if amount >= 0 or float(shown[1:]) == 0 else f"-{shown}"
