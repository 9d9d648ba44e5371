"""`corral why`, `events`, `jobs`, `products` and `templates`: what happened, what is being done, what is for sale."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import Annotated, Final

import msgspec
import typer

from corral.base.clock import SystemClock
from corral.cli.lease_text import lease_facts
from corral.cli.options import Json, Named, Url, connect, offered_names
from corral.cli.output import clock_time, expected, price, print_found, print_json, print_line
from corral.cli.table import Layout, print_fitted
from corral_client import Client, Event, Instance, Job, Operation, Processing, Product
from corral_client.models.instances import GONE

commands = typer.Typer()

LATEST: Final = 10
"""Events that `why` shows."""


class Why(msgspec.Struct, kw_only=True, rename="camel"):
    """Everything that explains the state of an instance."""

    instance: Instance
    next_step: str | None
    operations: list[Operation]
    events: list[Event]
    due: list[Job]
    """What the service will do by itself, soonest first."""
    provider: object
    """The state of the provider, from `/health`."""


@commands.command(rich_help_panel="Look inside")
def why(named: Named, json: Json = False, url: Url = None) -> None:
    """Say why an instance is as it is: its error, what was tried, the steps so far and the latest events."""
    with connect(url) as client:
        instance = client.instances.get(named)
        why_report = Why(
            instance=instance,
            next_step=None if instance.error is None else instance.error.next_step,
            operations=list(client.instances.operations(instance.id)),
            events=list(client.events.latest(LATEST, instance_id=instance.id)),
            due=sorted(_due(client, instance), key=lambda job: job.next_retry_at or job.created_at),
            provider=client.health().dependencies.get("novitaApi"),
        )
    if json:
        print_json(why_report)
    else:
        for label, line in _because(why_report):
            print_line(f"{label:<10}{line}".rstrip())


@commands.command(rich_help_panel="Look inside")
def events(
    named: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only those of this instance.", autocompletion=offered_names)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print each as it happens.")] = False,
    after: Annotated[int | None, typer.Option(help="Only those after this number.", min=0)] = None,
    last: Annotated[int, typer.Option(help="Without --follow: how many of the latest.", min=1, max=500)] = 100,
    json: Json = False,
    url: Url = None,
) -> None:
    """Print what happened, in order. With --json, one event a line."""
    with connect(url) as client:
        instance_id = None if named is None else client.instances.get(named).id
        if not follow:
            for event in client.events.latest(last, after=after or 0, instance_id=instance_id):
                _print_event(event, json=json)
            return
        with closing(client.events.follow(after=after, instance_id=instance_id)) as following:
            for event in following:
                _print_event(event, json=json)


@commands.command(rich_help_panel="Look inside")
def jobs(
    status: Annotated[str | None, typer.Option(help="pending, processing, completed or failed.")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    named: Annotated[str | None, typer.Option("--instance", help="Only jobs of this instance (name or id).")] = None,
    limit: Annotated[int, typer.Option(help="Most to list.", min=1)] = 50,
    json: Json = False,
    url: Url = None,
) -> None:
    """List background jobs, newest first."""
    with connect(url) as client:
        instance_id = None if named is None else client.instances.get(named).id
        listed = client.jobs.list(type=kind, status=status, instance_id=instance_id, page_size=min(limit, 500))
        found = list(islice(listed, limit))
    if json:
        print_json(found)
    else:
        print_fitted(_JOB_COLUMNS, [_job_row(job) for job in found])


@commands.command(rich_help_panel="The service")
def pause(json: Json = False, url: Url = None) -> None:
    """Pause the processing of jobs, in every process: creates, stops, deletes and webhooks wait for `corral resume`."""
    with connect(url) as client:
        _print_processing(client.jobs.pause(), json=json)


@commands.command(rich_help_panel="The service")
def resume(json: Json = False, url: Url = None) -> None:
    """Resume the processing of jobs."""
    with connect(url) as client:
        _print_processing(client.jobs.resume(), json=json)


@commands.command(rich_help_panel="Catalog")
def products(
    name: Annotated[str | None, typer.Argument(help="Part of the name.")] = None,
    region: Annotated[str | None, typer.Option(help="Only what this region sells.")] = None,
    spot: Annotated[bool, typer.Option("--spot/--on-demand", help="Which prices.")] = True,
    json: Json = False,
    url: Url = None,
) -> None:
    """List what is for sale, cheapest first. Prices are per GPU."""
    with connect(url) as client:
        found = client.products.list(name=name, region=region, billing_mode="spot" if spot else "onDemand")
    columns = ["name", "price", "cpu", "memory", "stock", "id"]
    print_found(found, columns, _product_row, json=json)


@commands.command(rich_help_panel="Catalog")
def templates(json: Json = False, url: Url = None) -> None:
    """List what can be run: the account's own templates first, then the provider's official ones."""
    with connect(url) as client:
        found = client.templates.list()
    print_found(found, ["id", "name", "image", "channel"], lambda t: (t.id, t.name, t.image, t.channel), json=json)


@commands.command(rich_help_panel="Catalog")
def volumes(json: Json = False, url: Url = None) -> None:
    """List network storage of the account. Only machines of its cluster can mount one: `create --volume ID:/PATH`."""
    with connect(url) as client:
        found = client.volumes()
    columns = ["id", "name", "size", "region", "cluster"]
    print_found(found, columns, lambda v: (v.id, v.name, f"{v.size_gb:g} GB", v.region, v.cluster_id), json=json)


_JOB_COLUMNS: Final = (
    Layout(name="id"),
    Layout(name="type", shrinks_to=12),
    Layout(name="status", is_status=True),
    Layout(name="attempts", rank=2),
    Layout(name="created", rank=1),
    Layout(name="error", shrinks_to=16),
)


def _job_row(j: Job) -> tuple[object, ...]:
    return j.id, j.type, j.status, f"{j.attempts}/{j.max_attempts}", clock_time(j.created_at), j.error


def _product_row(p: Product) -> tuple[object, ...]:
    stock = "yes" if p.available else "no"
    return p.name, price(p.price_per_gpu), p.cpu_per_gpu, f"{p.memory_per_gpu} GB", stock, p.id


def _print_processing(state: Processing, *, json: bool) -> None:
    if json:
        print_json(state)
    elif state.paused:
        print_line(f"paused since {clock_time(state.paused_at)} by {state.paused_by}; what runs is billed meanwhile")
    else:
        print_line("jobs are processed")


def _because(why_report: Why) -> list[tuple[str, str]]:
    instance, placement = why_report.instance, why_report.instance.placement
    lines = [("", f"{instance.name} ({instance.id}) is {instance.status}")]
    if instance.error is not None:
        lines.append(("because", f"{instance.error.code}: {instance.error.message}"))
    if instance.reason is not None:
        lines.append(("because" if instance.error is None else "", instance.reason))
    elif instance.error is None and why_report.events:
        lines.append(("because", why_report.events[-1].reason))
    if why_report.next_step is not None:
        lines.append(("to do", why_report.next_step))
    lines += [("next", line) for line in _next(why_report, SystemClock().now())]
    if placement.region is not None:
        lines.append(("placed", f"{placement.region}, {placement.product_id}, {price(placement.price)}"))
    lines += [("tried", f"{t.region}, {t.product_id or 'any'}: {t.reason}") for t in placement.tried]
    if instance.health_check is not None:
        lines += [
            ("health", f"port {e.port} is {e.status}" + (f": {e.error.message}" if e.error else ""))
            for e in instance.health_check.endpoints
        ]
    for operation in why_report.operations:
        lines.append((operation.kind, f"{operation.status} ({operation.operation_id})"))
        steps = sorted(operation.phases.items(), key=lambda step: (step[1], step[0] == "ready"))
        lines += [("", f"{clock_time(at)}  {step}") for step, at in steps]
    lines += [("event" if n == 0 else "", _event(event)) for n, event in enumerate(why_report.events)]
    return lines


def _due(client: Client, instance: Instance) -> list[Job]:
    jobs = client.jobs
    return [job for word in ("processing", "pending") for job in jobs.list(status=word, instance_id=instance.id)]


def _next(why_report: Why, now: datetime) -> list[str]:
    """What will happen by itself, and when; and what the provider last said."""
    instance, lines = why_report.instance, list[str]()
    if instance.estimated_ready_time is not None:
        lines.append(expected(instance.estimated_ready_time, now))
    lease = lease_facts(instance, now)
    lines += [f"{word} {lease[word]}" for word in ("ends", "starts") if lease.get(word) is not None]
    for job in why_report.due:
        when = "now" if job.next_retry_at is None else f"at {clock_time(job.next_retry_at)}"
        lines.append(f"{job.type} {when}" + (f", attempt {job.attempts + 1}: {job.error}" if job.error else ""))
    if instance.status not in GONE:
        vanished = instance.error is not None and instance.error.code == "INSTANCE_VANISHED"
        looked = "last looked up without success at" if vanished else "last seen at"
        seen = "not seen yet" if instance.last_seen_at is None else f"{looked} {clock_time(instance.last_seen_at)}"
        lines.append(f"watched in every listing of the provider; {seen}" + (", too long ago" if instance.stale else ""))
    if isinstance(why_report.provider, dict) and why_report.provider.get("breaker") not in {None, "CLOSED"}:
        lines.append(
            f"the provider keeps failing ({why_report.provider.get('lastFailure')}) and is retried with growing pauses"
        )
    return lines


def _print_event(event: Event, *, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        sys.stdout.flush()
    else:
        about = f"  {event.data.get('name', '')} {event.instance_id}" if event.instance_id else ""
        print_line(f"{event.seq:>6}  {_event(event)}{about}")


def _event(event: Event) -> str:
    return f"{clock_time(event.timestamp)}  {event.event.removeprefix('instance.'):<18}  {event.reason}"
