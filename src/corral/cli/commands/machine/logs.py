"""`corral logs`: what a machine prints, and the pull of its image."""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Final

import typer

from corral.cli.options import Named, Url, connect
from corral.cli.output import clean, print_note
from corral_client import Client, Conflict, Instance
from corral_client.models.instances import GONE
from corral_client.models.orders import LogSource

commands = typer.Typer()

RETRY_SECONDS: Final = 2.0
"""Between attempts to follow a log that does not exist yet."""
_BOOTING: Final = frozenset({"creating", "starting"})
_NO_MACHINE: Final = GONE | {"failed", "exited"}


class LogChoice(StrEnum):
    """Which log."""

    SYSTEM = "system"
    INSTANCE = "instance"


@commands.command(rich_help_panel="Use a machine")
def logs(
    named: Named,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print each new line as it is written.")] = False,
    source: Annotated[
        LogChoice | None,
        typer.Option(help="system: the pull of the image; instance: what the container prints. Else by its status."),
    ] = None,
    tail: Annotated[int, typer.Option(help="How many of the last lines.", min=1)] = 200,
    url: Url = None,
) -> None:
    """Print the log of an instance: while it boots that of the system, then that of the container."""
    with connect(url) as client:
        instance = client.instances.get(named)
        chosen: LogSource = _default(instance) if source is None else source.value
        is_waiting = False
        while True:
            try:
                _print_lines(client, instance.id, chosen, tail=tail, follow=follow)
            except Conflict as error:
                if not (follow and error.code == "NO_LOGS_YET") or instance.status in _NO_MACHINE:
                    raise
            else:
                return
            if not is_waiting:
                print_note(f"{instance.name} is {instance.status} and has no log yet; waiting for it.")
            is_waiting = True
            threading.Event().wait(RETRY_SECONDS)
            instance = client.instances.get(instance.id)
            chosen = chosen if source is not None else _default(instance)


def _default(instance: Instance) -> LogSource:
    return "system" if instance.status in _BOOTING else "instance"


def _print_lines(client: Client, instance_id: str, source: LogSource, *, tail: int, follow: bool) -> None:
    with closing(client.instances.logs(instance_id, source=source, tail=tail, follow=follow)) as lines:
        for line in lines:
            sys.stdout.write("\t".join(map(clean, line.split("\t"))) + "\n")
            if follow:
                sys.stdout.flush()
