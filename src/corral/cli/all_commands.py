"""`corral` with every command."""

from __future__ import annotations

from typing import Annotated

import typer

from corral.cli.commands import change, create, inspect, instance, keys, labels, lease, listing, login, records
from corral.cli.commands.costs import budgets, costs
from corral.cli.commands.machine import forward, logs, ssh, top
from corral.cli.commands.service import doctor, recovery, serve, verify
from corral.cli.exit_codes import MEANINGS

cli = typer.Typer(
    name="corral",
    help="GPU instances on novita.ai: ready, at the lowest price, none lost, none billed twice.",
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items()) + ".",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)
for group in (
    *(create, listing, instance, change, lease, labels, logs, top, ssh, forward),
    *(inspect, records, login, serve, doctor, verify, recovery),
):
    cli.add_typer(group.commands)
cli.add_typer(costs.commands, rich_help_panel="Costs")
cli.add_typer(budgets.commands, rich_help_panel="Costs")
cli.add_typer(keys.commands, rich_help_panel="Access")


@cli.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=serve.print_version, help="Print the version.")
    ] = False,
) -> None:
    """Options of `corral` itself."""
