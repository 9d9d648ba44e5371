"""`corral top`: how busy every machine is, once or live."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from corral.base.clock import SystemClock
from corral.cli.commands.listing import gpu, hourly, is_billed
from corral.cli.options import Json, Url, connect
from corral.cli.output import age, print_json, rate
from corral.cli.selection import Filters, Label, selected
from corral.cli.table import Layout, print_fitted, table_lines
from corral_client import Client, Instance, MachineUse

commands = typer.Typer()

REFRESH_SECONDS: Final = 5.0
"""Between reads of the live table: the service measures less often, so that a shorter pause would show nothing new."""
FIRST_READS: Final = 20
FIRST_READ_SECONDS: Final = 0.5
"""The service measures on demand: a first read may have no values yet, and is repeated for up to ten seconds."""
_UP: Final = ("ready", "running", "health_checking")

COLUMNS: Final = (
    Layout(name="name", shrinks_to=10),
    Layout(name="gpu", shrinks_to=10, rank=2),
    Layout(name="gpu use"),
    Layout(name="gpu memory", rank=1),
    Layout(name="cpu"),
    Layout(name="memory"),
    Layout(name="disk", rank=3),
    Layout(name="price", rank=4),
    Layout(name="measured", rank=5),
)


class BusyMachine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine that runs, and how busy it is."""

    instance: Instance
    use: MachineUse


@commands.command(rich_help_panel="Use a machine")
def top(
    label: Label = None,
    once: Annotated[bool, typer.Option("--once", help="Print it once; also without a terminal.")] = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """Show how busy the machines are that run, the busiest first, until Ctrl-C."""
    filters = Filters(status=_UP, label=label)
    with connect(url) as client:
        found = _first(client, filters)
        if json:
            print_json([one.use for one in found])
        elif once or not sys.stdout.isatty():
            print_fitted(COLUMNS, [_row(one, SystemClock().now()) for one in found])
        else:
            _show_live(client, filters, found)


def _first(client: Client, filters: Filters) -> list[BusyMachine]:
    """The machines, once there is a value of each, or after ten seconds as they are."""
    found = _read(client, filters)
    for _ in range(FIRST_READS):
        if all(one.use.sampled_at is not None for one in found):
            break
        threading.Event().wait(FIRST_READ_SECONDS)
        found = _read(client, filters)
    return found


def _read(client: Client, filters: Filters) -> list[BusyMachine]:
    uses = {use.id: use for use in client.utilization().instances}
    machines, _ = selected(client, filters)
    found = [BusyMachine(instance=i, use=uses.get(i.id) or MachineUse(id=i.id, name=i.name)) for i in machines]
    return sorted(found, key=lambda one: (-1.0 if one.use.gpu is None else one.use.gpu, one.use.cpu or 0), reverse=True)


def _show_live(client: Client, filters: Filters, found: list[BusyMachine]) -> None:
    table = UseTable(found)
    with Live(table, console=Console(highlight=False), screen=True, refresh_per_second=2):
        while True:
            threading.Event().wait(REFRESH_SECONDS)
            table.found = _read(client, filters)


class UseTable:
    """The table at this moment, as high as the terminal."""

    def __init__(self, found: Sequence[BusyMachine]) -> None:
        self.found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The heading, as many rows as fit, and the sum."""
        found, room = self.found, max(1, console.height - 2)
        now = SystemClock().now()
        yield from table_lines(COLUMNS, [_row(one, now) for one in found], options.max_width)[: room + 1]
        yield Text(f"{_total(found, room)}. Ctrl-C ends this.", style="dim", no_wrap=True)


def _total(found: Sequence[BusyMachine], room: int) -> str:
    """The sum of the table, how many rows do not fit, and why values are missing."""
    machines = "1 machine" if len(found) == 1 else f"{len(found)} machines"
    hidden = f"; {len(found) - room} more below" if len(found) > room else ""
    is_complete = all(one.use.sampled_at is not None for one in found)
    late = "" if is_complete else "; the provider measures a new machine after about a minute"
    return f"{machines}, {rate(hourly([one.instance for one in found]))}{hidden}{late}"


def _row(one: BusyMachine, now: datetime) -> list[str]:
    use = one.use
    values = (use.gpu, use.gpu_memory, use.cpu, use.memory, use.disk)
    cost = rate(one.instance.price) if is_billed(one.instance) else "-"
    measured = "-" if use.sampled_at is None else f"{age(now - use.sampled_at)} ago"
    return [one.instance.name, gpu(one.instance), *map(_percent, values), cost, measured]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"
