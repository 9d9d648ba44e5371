"""`corral ls`: instances as a table that fits the terminal, once or live."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from corral.base.clock import SystemClock
from corral.cli.lease_text import ends, ends_for_certain
from corral.cli.options import Json, Url, connect
from corral.cli.output import age, clock_time, print_json, print_note, rate
from corral.cli.selection import Filters, Label, Name, OlderThan, Owner, Region, Status, selected
from corral.cli.table import Layout, print_fitted, table_lines
from corral.domain.errors import MalformedError
from corral_client import Client, Instance, NotFound

commands = typer.Typer()

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class Output(StrEnum):
    """What `-o` prints."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One thing to show of an instance, and how to order instances by it."""

    layout: Layout
    cell: Callable[[Instance, datetime], str]
    order: Callable[[Instance], Any]


def _column(
    name: str, cell: Callable[[Instance, datetime], object], order: Callable[[Instance], Any], **layout: Any
) -> Column:
    def text(instance: Instance, now: datetime) -> str:
        value = cell(instance, now)
        return "-" if value is None else str(value)

    return Column(layout=Layout(name=name, **layout), cell=text, order=order)


def _certain_end(instance: Instance, now: datetime) -> str:
    return ends_for_certain(instance, now) or "-"


def _end_of(instance: Instance) -> datetime:
    """When it ends; one that nothing ends is last."""
    lease = instance.lease
    return _NEVER if lease is None or lease.ends_at is None else lease.ends_at


def labels_of(instance: Instance) -> str:
    """The labels on one line."""
    return ", ".join(f"{key}={value}" for key, value in sorted(instance.labels.items()))


COLUMNS: Final[Mapping[str, Column]] = {
    column.layout.name: column
    for column in (
        _column("name", lambda i, _: i.name, lambda i: i.name, shrinks_to=10),
        _column("id", lambda i, _: i.id, lambda i: i.id),
        _column("status", lambda i, _: i.status, lambda i: i.status, is_status=True),
        _column("gpu", lambda i, _: gpu(i), lambda i: (i.product_name, i.gpu_num), shrinks_to=10, rank=2),
        _column("region", lambda i, _: i.region, lambda i: i.region, rank=3),
        _column("price", lambda i, _: rate(i.price) if is_billed(i) else None, lambda i: i.price or 0.0, rank=1),
        _column("age", lambda i, now: age(now - i.created_at), lambda i: -i.created_at.timestamp()),
        _column("ends", ends, lambda i: _end_of(i).timestamp()),
        _column("owner", lambda i, _: i.created_by, lambda i: i.created_by or "", shrinks_to=8),
        _column("labels", lambda i, _: labels_of(i) or None, labels_of, shrinks_to=12),
        _column("billing", lambda i, _: i.billing_mode, lambda i: i.billing_mode or ""),
        _column("created", lambda i, _: clock_time(i.created_at), lambda i: i.created_at),
        _column("template", lambda i, _: i.template_id, lambda i: i.template_id or ""),
        _column("provider", lambda i, _: i.novita_instance_id, lambda i: i.novita_instance_id or ""),
        _column("reason", lambda i, _: i.reason, lambda i: i.reason or "", shrinks_to=20),
    )
}
DEFAULT_COLUMNS: Final = ("name", "status", "gpu", "region", "price", "age")
"""And `ends`, where an instance has an end."""
WIDE_COLUMNS: Final = (
    *("name", "id", "status", "gpu", "region", "price", "ends"),
    *("billing", "owner", "labels", "created", "provider"),
)


LIVE_COLUMNS: Final = {**COLUMNS, "ends": replace(COLUMNS["ends"], cell=_certain_end)}
"""The table of `--watch` is renewed by events, and activity that removes an expected end is none."""


def gpu(instance: Instance) -> str:
    """The product, with the number of GPUs where there are several."""
    return instance.product_name if instance.gpu_num == 1 else f"{instance.gpu_num}x {instance.product_name}"


def is_billed(instance: Instance) -> bool:
    """Whether it costs money now; a service of an earlier release does not say, and its price is shown."""
    return instance.billed is not False


def hourly(instances: Sequence[Instance]) -> float:
    """What *instances* cost together, in USD per hour."""
    return sum(instance.price or 0.0 for instance in instances if is_billed(instance))


@commands.command("ls", rich_help_panel="Instances")
def list_instances(
    status: Status = None,
    name: Name = None,
    region: Region = None,
    owner: Owner = None,
    label: Label = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only those with this text in name, id, region, GPU, label or owner."),
    ] = None,
    older_than: OlderThan = None,
    all_of_them: Annotated[bool, typer.Option("--all", "-a", help="Also those that are gone.")] = False,
    sort: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Order by a column, such as price; -price reverses it.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="LIST", help=f"Comma-separated, of: {', '.join(COLUMNS)}.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="wide adds ids and times.")] = Output.TABLE,
    limit: Annotated[int, typer.Option(help="Most to list.", min=1)] = 200,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show changes as they happen, until Ctrl-C.")] = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """List instances, newest first. On a narrow terminal the less important columns are left out."""
    filters = Filters(
        status=status,
        name=name,
        region=region,
        owner=owner,
        label=label,
        search=search,
        older_than=older_than,
        gone=all_of_them,
    )
    names = _names(columns, output)
    order = _order(sort)
    json = json or output is Output.JSON
    with connect(url) as client:
        if watch:
            if json or not sys.stdout.isatty():
                raise MalformedError("--watch needs a terminal; a program reads `corral events --follow --json`")
            _watch(client, filters, names, order, limit)
            return
        found, total = selected(client, filters, limit=None if sort else limit)
    found = order(found)[:limit]
    if json:
        print_json(found)
    else:
        print_instances(found, names, fit=names is None)
    if len(found) < total:
        print_note(f"{len(found)} of {total} shown; --limit {total} shows all")


def print_instances(
    found: Sequence[Instance],
    names: Sequence[str] | None = None,
    *,
    stderr: bool = False,
    fit: bool = True,
) -> None:
    """A table of *found* on standard output or standard error; with *fit* as wide as the terminal."""
    shown = [COLUMNS[name] for name in names or _default_names(found)]
    print_fitted([column.layout for column in shown], _rows(found, shown), stderr=stderr, fit=fit)


def _rows(found: Sequence[Instance], shown: Sequence[Column]) -> list[list[str]]:
    now = SystemClock().now()
    return [[column.cell(instance, now) for column in shown] for instance in found]


def _default_names(found: Sequence[Instance]) -> tuple[str, ...]:
    has_end = any(instance.lease is not None and instance.lease.ends_at is not None for instance in found)
    return (*DEFAULT_COLUMNS, "ends") if has_end else DEFAULT_COLUMNS


def _names(columns: str | None, output: Output) -> Sequence[str] | None:
    """The columns that were asked for; None for the default ones."""
    if columns is None:
        return WIDE_COLUMNS if output is Output.WIDE else None
    return [_known(name.strip().lower(), "--columns").layout.name for name in columns.split(",")]


def _order(sort: str | None) -> Callable[[Sequence[Instance]], list[Instance]]:
    if sort is None:
        return list
    column = _known(sort.removeprefix("-").lower(), "--sort")
    return lambda found: sorted(found, key=column.order, reverse=sort.startswith("-"))


def _known(name: str, option: str) -> Column:
    if name not in COLUMNS:
        raise MalformedError(f"{option}: there is no column {name!r}; there are {', '.join(COLUMNS)}")
    return COLUMNS[name]


class LiveTable:
    """The table at this moment, as high as the terminal; ages advance between changes."""

    def __init__(self, names: Sequence[str] | None, order: Callable[[Sequence[Instance]], list[Instance]]) -> None:
        self._names = names
        self._order = order
        self.found: Sequence[Instance] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The heading, as many rows as fit, and the sum."""
        found = self._order(self.found)
        shown = [LIVE_COLUMNS[name] for name in self._names or _default_names(found)]
        lines = table_lines([column.layout for column in shown], _rows(found, shown), options.max_width)
        room = max(1, console.height - 2)
        yield from lines[: room + 1]
        hidden = max(0, len(found) - room)
        count = "1 instance" if len(found) == 1 else f"{len(found)} instances"
        said = f"{count}, {rate(hourly(found))}" + (f"; {hidden} more below" if hidden else "")
        yield Text(f"{said}. Ctrl-C ends this.", style="dim", no_wrap=True)


def _watch(
    client: Client,
    filters: Filters,
    names: Sequence[str] | None,
    order: Callable[[Sequence[Instance]], list[Instance]],
    limit: int,
) -> None:
    """Show the table until interrupted: read once in full, then each instance that an event names."""
    seen = client.events.latest(1)
    table = LiveTable(names, order)
    found = {instance.id: instance for instance in selected(client, filters, limit=limit)[0]}
    table.found = list(found.values())
    with (
        Live(table, console=Console(highlight=False), screen=True, refresh_per_second=2),
        closing(client.events.follow(after=seen[-1].seq if seen else 0)) as events,
    ):
        for event in events:
            if event.instance_id is None:
                continue
            try:
                instance = client.instances.get(event.instance_id)
            except NotFound:
                continue
            rest = {one.id: one for one in found.values() if one.id != instance.id}
            if filters.accept(instance, SystemClock().now()):
                is_new = instance.id not in found
                found = {instance.id: instance, **rest} if is_new else {**found, instance.id: instance}
            else:
                found = rest
            table.found = list(found.values())
