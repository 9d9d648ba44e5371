"""`corral`: the commands, and what their exit codes mean."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

import corral_client
from corral import __version__
from corral.app.role import Role
from corral.base.clock import SystemClock
from corral.cli import doctor, inspect, instances, keys, recovery
from corral.cli.environment import configuration, configure_logging, open_standard_streams
from corral.cli.exit_codes import INTERRUPTED, MEANINGS, exit_code, explain
from corral.cli.output import print_line, print_note
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
for group in (instances, inspect, doctor, keys, recovery):
    cli.add_typer(group.commands)


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for any free one (PORT).")] = None,
    role: Annotated[Role, typer.Option(help="What this process does.")] = Role.ALL,
) -> None:
    """Run the service: HTTP API and workers in one process, or one of them."""
    from corral.app import bootstrap  # noqa: PLC0415  # half a second that other commands need not wait

    given = {"HOST": host, "PORT": None if port is None else str(port)}
    configured = configuration({name: value for name, value in given.items() if value is not None})
    settings = configured.settings
    output = configure_logging(settings.log.level, queued=True)

    def print_queued(message: str) -> None:
        """Print through the log's queue: in order, and without blocking."""
        if output is not None:
            output.write(message + "\n")

    if settings.provider.api_key is None:
        print_queued(
            "NOVITA_API_KEY is not set: instances of the built-in provider simulator are managed, nothing is billed."
        )
    uvloop.run(
        bootstrap.serve(
            settings,
            role,
            on_ready=lambda address: print_queued(f"Corral {__version__} serves on {address}"),
            dropped_log_lines=lambda: 0 if output is None else output.take_dropped(),
        )
    )


@cli.command()
def config() -> None:
    """Print every setting: its value, where it came from and what it means. Secrets are masked."""
    table = Table("setting", "value", "from", "meaning", box=None, pad_edge=False)
    for setting in configuration({}).shown:
        table.add_row(setting.name, setting.value, setting.origin, f"{setting.meaning} ({setting.accepts})")
    Console(width=None if sys.stdout.isatty() else 200).print(table)


@cli.command()
def migrate() -> None:
    """Bring the database's schema up to date, and say what was done."""
    from corral.app import database_setup  # noqa: PLC0415  # as above

    settings = configuration({}).settings
    configure_logging("warning")

    async def run() -> None:
        async with database_setup.opened_database(settings, SystemClock()) as (target, _):
            applied = await database_setup.migrate_database(target)
        for step in applied:
            print_line(f"applied {step.number:04} {step.name.replace('_', ' ')}")
        if not applied:
            print_line("the database is up to date")

    uvloop.run(run())


@cli.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def sim(context: typer.Context) -> None:
    """Run the provider simulator alone; `corral sim --help` lists its options."""
    os.execv(sys.executable, [sys.executable, "-m", "novitasim", *context.args])  # noqa: S606  # our own program


@cli.command()
def version() -> None:
    """Print the version."""
    print_line(__version__)


def main() -> None:
    """Run the command line; every error of ours is one message and an exit code, never a stack trace."""
    open_standard_streams()
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
