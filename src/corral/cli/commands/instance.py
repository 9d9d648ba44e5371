"""`corral show` and `wait`: one instance."""

from __future__ import annotations

from typing import Annotated

import typer

from corral.base.clock import SystemClock
from corral.cli.commands.listing import labels_of
from corral.cli.lease_text import lease_facts
from corral.cli.options import Json, Named, Timeout, Url, connect
from corral.cli.output import clock_time, price, print_json, print_line
from corral.cli.waiting import wait as wait_live
from corral_client import Aim, Instance
from corral_client.models.instances import GONE

commands = typer.Typer()


@commands.command(rich_help_panel="Instances")
def show(named: Named, json: Json = False, url: Url = None) -> None:
    """Show one instance: where it is, what it costs and how to get in."""
    with connect(url) as client:
        show_instance(client.instances.get(named), json=json)


@commands.command("wait", rich_help_panel="Instances")
def wait_for(
    named: Named,
    until: Annotated[Aim, typer.Option(help="What to wait for.")] = Aim.READY,
    timeout: Timeout = None,
    json: Json = False,
    url: Url = None,
) -> None:
    """Wait until an instance is ready, stopped or gone. Ctrl-C ends the wait, not the work."""
    with connect(url) as client:
        show_instance(wait_live(client, named, until, timeout=timeout, url=url), json=json)


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
        "image": instance.image,
        "command": instance.command,
        "env": ", ".join(sorted(instance.env)) or None,
        "secrets": ", ".join(sorted(instance.secret_names)) or None,
        "volumes": ", ".join(f"{volume.id} at {volume.mount}" for volume in instance.volumes) or None,
        "labels": labels_of(instance) or None,
        "provider": instance.novita_instance_id,
        "created": clock_time(instance.created_at),
        "ready": None if instance.ready_at is None else clock_time(instance.ready_at),
        **lease_facts(instance, SystemClock().now()),
        "error": None if instance.error is None else f"{instance.error.code}: {instance.error.message}",
        "ssh": access.ssh,
        "jupyter": access.jupyter,
        "terminal": access.web_terminal,
        **{f"port {mapping.port}": mapping.endpoint for mapping in instance.port_mappings},
    }
    for label, value in facts.items():
        if value is not None:
            print_line(f"{label:<10}{value}")
