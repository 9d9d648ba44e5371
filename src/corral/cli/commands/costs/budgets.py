"""`corral budgets`: limits on cost."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from corral.cli.options import Json, Url, connect
from corral.cli.output import clock_time, print_json, print_line, print_table
from corral.domain.budgets.budget import BudgetPeriod, LimitAction
from corral.domain.errors import MalformedError
from corral_client import Budget

commands = typer.Typer(name="budgets", help="Limits on cost: set, list and remove them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the budget.")]


@commands.command("set")
def set_budget(
    name: Name,
    limit: Annotated[float, typer.Option(metavar="USD", help="The most that may be spent in a period.")],
    period: Annotated[BudgetPeriod, typer.Option(help="When it begins again from 0, by UTC.")],
    scope: Annotated[str, typer.Option(help="What it counts: all, label:KEY=VALUE or key:NAME.")] = "all",
    on_limit: Annotated[
        LimitAction, typer.Option(help="refuse creates and starts; also stop machines; or only notify.")
    ] = LimitAction.REFUSE,
    threshold: Annotated[
        list[float] | None, typer.Option(help="Part of the limit that is reported; several (0.5, 0.8 and 1).")
    ] = None,
    json: Json = False,
    url: Url = None,
) -> None:
    """Create or replace a budget. What was spent in its present period before counts too."""
    if not math.isfinite(limit):  # JSON has no such number
        raise MalformedError("--limit must be a number")
    with connect(url) as client:
        found = client.budgets.set(
            name,
            limit_usd=limit,
            period=period.value,
            scope=scope,
            on_limit=on_limit.value,
            thresholds=threshold,
        )
    if json:
        print_json(found)
    else:
        print_line(_sentence(found))


@commands.command("ls")
def list_budgets(json: Json = False, url: Url = None) -> None:
    """List every budget, with how much of it is spent and reserved in its present period."""
    with connect(url) as client:
        found = client.budgets.list()
    if json:
        print_json(found)
    elif not found:
        print_line("No budgets: `corral budgets set` makes one.")
    else:
        print_table(
            ("name", "scope", "period", "limit", "spent", "reserved", "left", "at the limit", "begins again"),
            [
                (
                    *(each.name, each.scope, each.period),
                    *(_usd(amount) for amount in (each.limit_usd, each.spent, each.reserved, _left(each))),
                    each.on_limit,
                    clock_time(each.resets_at),
                )
                for each in found
            ],
        )


@commands.command("rm")
def remove_budget(name: Name, url: Url = None) -> None:
    """Remove a budget. Machines that it stopped stay stopped."""
    with connect(url) as client:
        client.budgets.remove(name)
    print_line(f"{name} is removed")


def _sentence(budget: Budget) -> str:
    used = f"{_usd(budget.spent)} spent and {_usd(budget.reserved)} reserved of {_usd(budget.limit_usd)}"
    return f"{budget.name}: {used}" + ("" if budget.resets_at is None else f" until {clock_time(budget.resets_at)}")


def _left(budget: Budget) -> float:
    return max(0.0, budget.limit_usd - budget.spent - budget.reserved)


def _usd(amount: float) -> str:
    return f"${amount:,.2f}"
