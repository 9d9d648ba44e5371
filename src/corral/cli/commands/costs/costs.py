"""`corral costs`: what machines cost, where that leads, the lines behind it, and whether the provider's bill agrees."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from corral.base.clock import SystemClock
from corral.cli.commands.costs import reconcile
from corral.cli.cost_text import causes_table, forecast_lines, report_notes, report_table
from corral.cli.options import Json, Url, connect, offered_label_names
from corral.cli.output import print_json, print_line, print_note
from corral.cli.periods import ACCEPTED, read_time
from corral.cli.table import print_fitted
from corral.domain.errors import MalformedError

commands = typer.Typer(
    name="costs",
    help="What machines cost, where that leads, and whether the provider's bill agrees.",
    invoke_without_command=True,
)

commands.add_typer(reconcile.commands)

GROUPINGS: Final = ("product", "key", "instance", "region", "cause", "day")


class FileFormat(StrEnum):
    """What `corral costs export` writes."""

    CSV = "csv"
    FOCUS = "focus"


def _offered_groupings(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    words = [(word, "") for word in GROUPINGS if word.startswith(incomplete)]
    return [*words, *offered_label_names(context, incomplete)]


Since = Annotated[
    str, typer.Option(metavar="WHEN", help=f"From when: {ACCEPTED}; days and times are in UTC, month is its first day.")
]
Until = Annotated[str, typer.Option(metavar="WHEN", help="To when, in the same forms.")]


@commands.callback()
def costs(
    context: typer.Context,
    by: Annotated[
        str,
        typer.Option(
            metavar="GROUP",
            help="product, key (its owner), instance, region, cause, day, or label:NAME.",
            autocompletion=_offered_groupings,
        ),
    ] = "product",
    since: Since = "month",
    until: Until = "now",
    json: Json = False,
    url: Url = None,
) -> None:
    """Show what was billed, by product, owner, label or another property, and where that leads."""
    if context.invoked_subcommand is not None:
        if (by, since, until, json, url) != ("product", "month", "now", False, None):
            raise MalformedError(f"options of `corral costs {context.invoked_subcommand}` belong after its name")
        return
    now = SystemClock().now()
    start, end = _times(since, until, now)
    with connect(url) as client:
        report = client.costs.get(group_by=by, since=start, until=end)
        if json:
            print_json(report)
            return
        columns, rows = report_table(report, by)
        print_fitted(columns, rows)
        for note in [*report_notes(report), *forecast_lines(client.costs.forecast(), client.account(), now)]:
            print_note(note)


@commands.command()
def forecast(json: Json = False, url: Url = None) -> None:
    """Show what is billed now and why, what the month will cost, and how long the balance lasts."""
    now = SystemClock().now()
    with connect(url) as client:
        found, account = client.costs.forecast(), client.account()
    if json:
        print_json({"forecast": found, "account": account})
        return
    if found.causes:
        print_fitted(*causes_table(found.causes))
    for line in forecast_lines(found, account, now):
        print_line(line)


@commands.command()
def export(
    format: Annotated[  # noqa: A002  # the word of the option
        FileFormat, typer.Option(help="csv: everything that is known; focus: the columns of FOCUS 1.2.")
    ] = FileFormat.CSV,
    since: Since = "month",
    until: Until = "now",
    url: Url = None,
) -> None:
    """Write one line for each span of usage and day, as CSV, for spreadsheets and FinOps tools."""
    start, end = _times(since, until, SystemClock().now())
    with connect(url) as client, closing(client.costs.export(format=format.value, since=start, until=end)) as lines:
        for line in lines:
            sys.stdout.write(f"{line}\r\n")


def _times(since: str, until: str, now: datetime) -> tuple[datetime, datetime | None]:
    """Both times; the second is None for now. Raises MalformedError that names the option."""
    return _read("--since", since, now), None if until == "now" else _read("--until", until, now)


def _read(option: str, text: str, now: datetime) -> datetime:
    try:
        return read_time(text, now)
    except ValueError as error:
        raise MalformedError(f"{option} {error}") from error
