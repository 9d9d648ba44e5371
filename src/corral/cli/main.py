"""`corral`: the commands, and what their exit codes mean."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import corral_client
from corral.cli.commands import change, create, inspect, instance, keys, labels, lease, listing, login, records
from corral.cli.commands.costs import budgets, costs
from corral.cli.commands.machine import forward, logs, ssh, top
from corral.cli.commands.service import doctor, recovery, serve, verify
from corral.cli.completion import rejoin_words
from corral.cli.environment import open_standard_streams
from corral.cli.exit_codes import INTERRUPTED, MEANINGS, exit_code, explain
from corral.cli.output import print_note
from corral.cli.remote.askpass import ASKED_FOR, answer, is_askpass
from corral.domain import errors

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


def main() -> None:
    """Run the command line; every error of ours is one message and an exit code, never a stack trace."""
    open_standard_streams()
    if "_CORRAL_COMPLETE" in os.environ:  # noqa: TID251  # the shell asks for completions
        rejoin_words(os.environ)  # noqa: TID251
    if is_askpass(sys.argv, os.environ):  # noqa: TID251  # ssh asks for a password
        sys.exit(_exit_code(lambda: sys.exit(answer(sys.argv[1], os.environ[ASKED_FOR]))))  # noqa: TID251
    sys.exit(_exit_code(cli))


def _exit_code(command: Callable[[], object]) -> int:
    try:
        command()
    except errors.CorralError as error:
        print_note(f"corral: {error.message}")
        return exit_code(error)
    except corral_client.CorralError as error:
        print_note(f"corral: {explain(error)}")
        return exit_code(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    return 0
