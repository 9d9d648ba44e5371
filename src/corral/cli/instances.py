"""`corral create`, `ls`, `show`, `wait`, `ssh`, `start`, `stop`, `restart` and `rm`, through the SDK."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from itertools import islice
from typing import Annotated, Final

import typer

from corral.cli.options import (
    DEFAULT_URL,
    Json,
    Named,
    Names,
    Timeout,
    Url,
    connect,
    offered_products,
    offered_templates,
)
from corral.cli.output import clock_time, price, print_found, print_json, print_line, print_note, print_table
from corral.cli.waiting import wait as wait_live
from corral_client import Aim, Instance, InstanceHandle, Plan
from corral_client.models import GONE
from corral_client.orders import Order
from corral_client.sync_instances import Instances

commands = typer.Typer()

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done. Ctrl-C ends the wait only.")]

_SSH: Final = re.compile(r"ssh(?: -p [0-9]{1,5})? [A-Za-z0-9_.-]+@[A-Za-z0-9][A-Za-z0-9.:-]*(?: -p [0-9]{1,5})?")
"""The only form that is run: an option such as ProxyCommand would run any program."""

LONGEST_WAIT_SECONDS: Final = 26 * 3600.0
"""With --until-available: longer than the service itself waits, so that its reason is shown."""


@commands.command()
def create(
    name: Annotated[str, typer.Argument(help="A name for people.")],
    product: Annotated[
        str, typer.Option(help="Whole product name, as `corral products` lists it.", autocompletion=offered_products)
    ],
    template: Annotated[
        str,
        typer.Option(help="The provider's template to run; see `corral templates`.", autocompletion=offered_templates),
    ],
    region: Annotated[str | None, typer.Option(help="Region tried first.")] = None,
    gpus: Annotated[int | None, typer.Option(help="How many GPUs (1).")] = None,
    disk: Annotated[int | None, typer.Option(help="GB of disk (60).")] = None,
    spot: Annotated[bool, typer.Option("--spot/--on-demand", help="How it is paid for.")] = True,
    max_price: Annotated[float | None, typer.Option(help="Most USD per GPU-hour.")] = None,
    until_available: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Wait so long for capacity, such as 2h or 30m; 0 fails at once."),
    ] = None,
    webhook: Annotated[str | None, typer.Option(help="Address that receives events.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is ready.")] = True,
    timeout: Timeout = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only print what would be chosen.")] = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Create an instance, and wait until it is ready. Ctrl-C ends the wait, not the work."""
    order = Order(name=name, product_name=product, template_id=template, billing_mode="spot" if spot else "onDemand")
    optional = {
        "gpu_num": gpus,
        "rootfs_size": disk,
        "region": region,
        "max_price": max_price,
        "wait_for_capacity": until_available,
        "webhook_url": webhook,
    }
    order.update({key: value for key, value in optional.items() if value is not None})  # type: ignore[typeddict-item]  # keys of Order
    with connect(url) as client:
        if plan:
            _show_plan(client.instances.plan(**order), json=json)
            return
        made = client.instances.create(**order)
        assert made.created is not None, "it was just created"  # noqa: S101
        receipt = made.created
        if wait:
            if until_available is not None and timeout is None:
                timeout = LONGEST_WAIT_SECONDS
            if sys.stderr.isatty():
                print_note(f"{name} is {made.id}, in {receipt.region} for {price(receipt.price)}")
            show_instance(wait_live(client, made.id, Aim.READY, timeout=timeout, url=url), json=json)
        elif json:
            print_json(receipt)
        else:
            print_line(made.id)


@commands.command("ls")
def list_instances(
    status: Annotated[str | None, typer.Option(help="Only those with this status.")] = None,
    name: Annotated[str | None, typer.Option(help="Only those with this name.")] = None,
    all_of_them: Annotated[bool, typer.Option("--all", "-a", help="Also those that are gone.")] = False,
    limit: Annotated[int, typer.Option(help="Most to list.", min=1)] = 200,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List instances, newest first."""
    with connect(url) as client:
        shown = (
            instance
            for instance in client.instances.list(status=status, name=name, page_size=500)
            if all_of_them or status is not None or not instance.is_gone
        )
        found = list(islice(shown, limit))
    columns = ["name", "id", "status", "region", "gpu", "price", "created"]
    print_found(found, columns, _listed_row, json=json, styled="status")


@commands.command()
def show(named: Named, json: Json = False, url: Url = DEFAULT_URL) -> None:
    """Show one instance: where it is, what it costs and how to get in."""
    with connect(url) as client:
        show_instance(client.instances.get(named), json=json)


@commands.command("wait")
def wait_for(
    named: Named,
    until: Annotated[Aim, typer.Option(help="What to wait for.")] = Aim.READY,
    timeout: Timeout = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Wait until an instance is ready, stopped or gone. Ctrl-C ends the wait, not the work."""
    with connect(url) as client:
        show_instance(wait_live(client, named, until, timeout=timeout, url=url), json=json)


@commands.command()
def ssh(
    named: Named,
    print_only: Annotated[bool, typer.Option("--print", help="Print the command; do not run it.")] = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Log in to an instance. Without a terminal, or with --print, the command is printed instead."""
    with connect(url) as client:
        instance = client.instances.get(named)
    command = instance.connection_details.ssh
    if command is None:
        print_note(f"corral: {instance.name} is {instance.status} and offers no ssh; `corral why {named}` says more")
        raise typer.Exit(1)
    if json:
        print_json({"id": instance.id, "ssh": command})
    elif print_only or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_line(command)
    elif _SSH.fullmatch(command):
        words = shlex.split(command)
        os.execvp(words[0], words)  # noqa: S606  # checked above
    else:
        print_note(
            "corral: the provider's command has more in it than a host and a port; run it yourself if you trust it:"
        )
        print_line(command)
        raise typer.Exit(1)


def _add_change(word: str, act: Callable[[Instances, str], InstanceHandle], aim: Aim, description: str) -> None:
    """Add the command *word*, which does *act* to each of the instances that it names."""

    @commands.command(word, help=description)
    def change(
        names: Names, wait: Wait = False, timeout: Timeout = None, json: Json = False, url: Url = DEFAULT_URL
    ) -> None:
        with connect(url) as client:
            found = [client.instances.get(named) for named in names]  # all of them, before anything is requested
            asked = [act(client.instances, instance.id) for instance in found]
            if wait:
                found = [wait_live(client, handle.id, aim, timeout=timeout, url=url) for handle in asked]
        if json:
            print_json(found if wait else [handle.action for handle in asked])
            return
        for instance, handle in zip(found, asked, strict=True):
            status = "gone" if instance.is_gone else instance.status
            if not wait and handle.action is not None:
                status = handle.action.status
            print_line(f"{instance.name} ({instance.id}) is {status}")


_add_change("start", Instances.start, Aim.READY, "Start stopped instances, or failed ones that still exist.")
_add_change(
    "stop",
    Instances.stop,
    Aim.STOPPED,
    "Stop instances. Each keeps its disk, and can be started again while the provider has a GPU free there.",
)
_add_change("restart", Instances.restart, Aim.READY, "Restart running instances.")
_add_change(
    "rm",
    Instances.delete,
    Aim.GONE,
    "Delete instances. The service continues until the provider confirms that each is gone.",
)


def _listed_row(i: Instance) -> tuple[object, ...]:
    gpu = f"{i.gpu_num} x {i.product_name}"
    return i.name, i.id, i.status, i.region, gpu, price(i.price), clock_time(i.created_at)


def show_instance(instance: Instance, *, json: bool) -> None:
    """Where it is, what it costs and how to get in."""
    if json:
        print_json(instance)
        return
    access = instance.connection_details
    facts = {
        "name": instance.name,
        "id": instance.id,
        "status": instance.status + (" (not seen lately)" if instance.stale and instance.status not in GONE else ""),
        "gpu": f"{instance.gpu_num} x {instance.product_name}, {instance.rootfs_size} GB disk",
        "region": instance.region,
        "price": f"{price(instance.price)} {instance.billing_mode}",
        "template": instance.template_id,
        "provider": instance.novita_instance_id,
        "created": clock_time(instance.created_at),
        "ready": None if instance.ready_at is None else clock_time(instance.ready_at),
        "error": None if instance.error is None else f"{instance.error.code}: {instance.error.message}",
        "ssh": access.ssh,
        "jupyter": access.jupyter,
        "terminal": access.web_terminal,
        **{f"port {mapping.port}": mapping.endpoint for mapping in instance.port_mappings},
    }
    for label, value in facts.items():
        if value is not None:
            print_line(f"{label:<10}{value}")


def _show_plan(plan: Plan, *, json: bool) -> None:
    if json:
        print_json(plan)
        return
    chosen = [(n, o.region, o.product_id, price(o.price), "") for n, o in enumerate(plan.candidates, 1)]
    refused = [("-", r.region, r.product_id, None, r.message) for r in plan.rejected]
    print_table(["order", "region", "product", "price", "why not"], [*chosen, *refused])
