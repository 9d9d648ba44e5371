"""`corral serve`, `config`, `migrate`, `sim` and `version`: the service itself."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from corral import __version__
from corral.app.role import Role
from corral.base.clock import SystemClock
from corral.cli.environment import configuration, configure_logging
from corral.cli.output import print_line
from corral.domain.errors import MalformedError
from corral_client.login import KEY_VARIABLE, URL_VARIABLE, target

commands = typer.Typer(pretty_exceptions_enable=False, pretty_exceptions_show_locals=False)
"""`serve` is also run without the other commands: these options are the same as in `cli/all_commands.py`."""


@commands.command(rich_help_panel="The service")
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


@commands.command(rich_help_panel="The service")
def config(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Only these, such as PORT or CORRAL_URL.")
    ] = None,
) -> None:
    """Print every setting: its value, where it came from and what it means. Secrets are masked."""
    service = [(s.name, s.value, s.origin, f"{s.meaning} ({s.accepts})") for s in configuration({}).shown]
    rows = {row[0]: row for row in (*service, *_client_settings())}
    unknown = [name for name in names or () if name not in rows]
    if unknown:
        raise MalformedError(f"there is no setting {', '.join(unknown)}; `corral config` lists all settings")
    table = Table("setting", "value", "from", "meaning", box=None, pad_edge=False)
    for name in names or rows:
        table.add_row(*rows[name])
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _client_settings() -> list[tuple[str, str, str, str]]:
    """What the commands and the SDK read, beside the settings of the service."""
    found = target()
    where = "Where commands and Python programs find the service. (an http or https address)"
    key = "The key that they send. (text)"
    return [
        (URL_VARIABLE, found.url, found.url_origin, where),
        (KEY_VARIABLE, "********" if found.api_key else "", found.key_origin, key),
    ]


@commands.command(rich_help_panel="The service")
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


@commands.command(
    rich_help_panel="The service",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def sim(context: typer.Context) -> None:
    """Run the provider simulator alone; `corral sim --help` lists its options."""
    os.execv(sys.executable, [sys.executable, "-m", "novitasim", *context.args])  # noqa: S606  # our own program


@commands.command(rich_help_panel="The service")
def version() -> None:
    """Print the version."""
    print_line(__version__)


def print_version(wanted: bool) -> None:  # noqa: FBT001  # as typer calls it
    """Print the version and exit, if *wanted*."""
    if wanted:
        print_line(__version__)
        raise typer.Exit
