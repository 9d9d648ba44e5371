"""`corral extend` and `lease`: how long an instance may live."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from corral.base.clock import SystemClock
from corral.cli.create_options.lease import (
    AtEnd,
    Grace,
    Idle,
    StartAt,
    StopAt,
    Timezone,
    Ttl,
    lease_order,
    offered_durations,
)
from corral.cli.lease_text import ends, lease_facts
from corral.cli.options import Json, Named, Url, connect
from corral.cli.output import clock_time, print_json, print_line
from corral.domain.errors import MalformedError
from corral_client import Instance
from corral_client.models.orders import LeaseOrder

commands = typer.Typer()


@commands.command(rich_help_panel="Instances")
def extend(
    named: Named,
    by: Annotated[
        str | None,
        typer.Argument(metavar="[DURATION]", help="How much longer, such as 2h.", autocompletion=offered_durations),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Until then, such as 2030-01-31T18:00; your time zone unless it has one."),
    ] = None,
    json: Json = False,
    url: Url = None,
) -> None:
    """Let an instance live longer: before that, neither its maximum duration nor idleness nor its schedule ends it."""
    if (by is None) == (until is None):
        raise MalformedError("say how much longer: a duration such as 2h, or --until TIME")
    at = None if until is None else moment(until)
    with connect(url) as client:
        instance = client.instances.extend(named, by=by) if at is None else client.instances.extend(named, until=at)
    if json:
        print_json(instance.lease)
    else:
        print_line(_extended(instance, SystemClock().now()))


@commands.command(rich_help_panel="Instances")
def lease(
    named: Named,
    ttl: Ttl = None,
    idle: Idle = None,
    on_end: AtEnd = None,
    grace: Grace = None,
    stop_at: StopAt = None,
    start_at: StartAt = None,
    timezone: Timezone = None,
    remove: Annotated[bool, typer.Option("--none", help="Remove all of it: nothing ends the instance.")] = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """Show when an instance ends and why, or change it; what no option names stays as it was."""
    order = lease_order(
        ttl=ttl, idle=idle, on_end=on_end, grace=grace, stop_at=stop_at, start_at=start_at, timezone=timezone
    )
    if remove and order:
        raise MalformedError("--none removes the whole lease; give it alone")
    if remove:
        order = LeaseOrder(max_duration=None, idle=None, schedule=None)
    with connect(url) as client:
        instance = client.instances.set_lease(named, **order) if order else client.instances.get(named)
    if json:
        print_json(instance.lease)
    else:
        _print_lease(instance, SystemClock().now())


def moment(text: str) -> datetime:
    """The time that *text* means, in the time zone of this computer unless it names one; raises MalformedError."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise MalformedError(f"--until: {text!r} is no time such as 2030-01-31T18:00 or 2030-01-31T17:00Z") from None


def _extended(instance: Instance, now: datetime) -> str:
    who = f"{instance.name} ({instance.id})"
    until = None if instance.lease is None else instance.lease.extended_until
    end = ends(instance, now)
    return f"{who} is not ended before {clock_time(until)}" + ("" if end is None else f"; it ends {end}")


def _print_lease(instance: Instance, now: datetime) -> None:
    has = "has a lease" if instance.lease is not None else "has no lease; nothing ends it"
    print_line(f"{instance.name} ({instance.id}) is {instance.status} and {has}")
    for label, value in lease_facts(instance, now).items():
        if value is not None:
            print_line(f"{label:<10}{value}")
