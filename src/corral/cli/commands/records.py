"""`corral orphans`, `adopt`, `deliveries`, `redeliver` and `audit`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import typer

from corral.cli.options import Json, Url, connect, offered_names
from corral.cli.output import clock_time, print_json, print_line, print_note, print_table, rate
from corral.cli.table import Layout, print_fitted
from corral_client import AuditLine, Delivery

commands = typer.Typer()

InstanceOption = Annotated[
    str | None, typer.Option("--instance", help="Only of this instance (name or id).", autocompletion=offered_names)
]


@commands.command(rich_help_panel="Look inside")
def orphans(json: Json = False, url: Url = None) -> None:
    """List machines that carry this installation's mark without a record, and instances that make no progress."""
    with connect(url) as client:
        report = client.orphans()
    if json:
        print_json(report)
        return
    if not (report.orphans or report.stuck):
        print_line("No orphans, and every instance makes progress.")
    if report.orphans:
        rows = [(o.novita_instance_id, o.status, o.region, rate(o.price), o.action, o.reason) for o in report.orphans]
        print_table(["machine", "status", "region", "price", "action", "reason"], rows, styled="status")
        print_note("Keep one with `corral adopt MACHINE`; it is then an instance like any other.")
    if report.stuck:
        stuck = [(s.instance_id, s.status, clock_time(s.since), s.reason, s.next_step) for s in report.stuck]
        print_table(["instance", "status", "since", "waits for", "next"], stuck, styled="status")


@commands.command(rich_help_panel="Look inside")
def adopt(
    machine: Annotated[str, typer.Argument(metavar="MACHINE", help="The provider's id, as `corral orphans` lists it.")],
    json: Json = False,
    url: Url = None,
) -> None:
    """Make a machine of the provider's account an instance of Corral, which then watches, stops and deletes it."""
    with connect(url) as client:
        instance = client.instances.adopt(machine)
    if json:
        print_json(instance)
    else:
        print_line(f"{instance.name} ({instance.id}) is {instance.status}")


@commands.command(rich_help_panel="Look inside")
def deliveries(
    instance: InstanceOption = None,
    status: Annotated[str | None, typer.Option(help="pending, delivered, failed or cancelled.")] = None,
    limit: Annotated[int, typer.Option(help="Most to list.", min=1)] = 50,
    json: Json = False,
    url: Url = None,
) -> None:
    """List what was sent to webhooks, newest first; `corral redeliver ID` sends one again."""
    with connect(url) as client:
        instance_id = None if instance is None else client.instances.get(instance).id
        listed = client.deliveries.list(instance_id=instance_id, status=status, page_size=min(limit, 500))
        found = list(islice(listed, limit))
    if json:
        print_json(found)
    else:
        print_fitted(_DELIVERY_COLUMNS, [_delivery_row(delivery) for delivery in found])


@commands.command(rich_help_panel="Look inside")
def redeliver(
    delivery: Annotated[str, typer.Argument(metavar="ID", help="As `corral deliveries` lists it.")],
    json: Json = False,
    url: Url = None,
) -> None:
    """Send one delivery again: the same message, with the same id."""
    with connect(url) as client:
        again = client.deliveries.redeliver(delivery)
    if json:
        print_json(again)
    else:
        print_line(f"{again.id} ({again.event}) is sent again to {again.host}")


@commands.command(rich_help_panel="Look inside")
def audit(
    instance: InstanceOption = None,
    who: Annotated[str | None, typer.Option(help="Only of this key (name or id); `local` without a key.")] = None,
    last: Annotated[int, typer.Option(help="How many of the latest.", min=1, max=500)] = 50,
    json: Json = False,
    url: Url = None,
) -> None:
    """List who changed what, from where, and the outcome; refused requests too. For admins."""
    with connect(url) as client:
        instance_id = None if instance is None else client.instances.get(instance).id
        found = client.audit.latest(last, instance_id=instance_id, who=who)
    if json:
        print_json(found)
    else:
        print_fitted(_AUDIT_COLUMNS, [_audit_row(line) for line in found])


_DELIVERY_COLUMNS: Final = (
    Layout(name="id"),
    Layout(name="event", shrinks_to=14),
    Layout(name="status", is_status=True),
    Layout(name="attempts", rank=2),
    Layout(name="host", shrinks_to=12, rank=1),
    Layout(name="created", rank=3),
    Layout(name="last error", shrinks_to=12),
)
_AUDIT_COLUMNS: Final = (
    Layout(name="when"),
    Layout(name="who", shrinks_to=8),
    Layout(name="role", rank=2),
    Layout(name="request", shrinks_to=18),
    Layout(name="outcome", shrinks_to=7),
    Layout(name="from", rank=1),
)


def _delivery_row(d: Delivery) -> tuple[object, ...]:
    failed = next((attempt.error for attempt in d.history if attempt.error), None)
    return d.id, d.event, d.status, d.attempts, d.host, clock_time(d.created_at), failed


def _audit_row(line: AuditLine) -> tuple[object, ...]:
    outcome = line.status if line.error_code is None else f"{line.status} {line.error_code}"
    return clock_time(line.at), line.who, line.role, f"{line.method} {line.path}", outcome, line.address
