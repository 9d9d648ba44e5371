"""`corral start`, `stop`, `restart` and `rm`: actions on existing instances, through the SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from corral.cli.options import DEFAULT_URL, Json, Names, Timeout, Url, connect
from corral.cli.output import print_json, print_line
from corral.cli.waiting import wait as wait_live
from corral_client import Aim, Client, Instance, InstanceHandle

commands = typer.Typer()

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done. Ctrl-C ends the wait only.")]
Ask = Callable[[Client, str], InstanceHandle]


@commands.command()
def start(
    names: Names,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Start stopped instances, or failed ones that still exist."""
    _do(names, lambda c, i: c.instances.start(i), Aim.READY, wait=wait, timeout=timeout, json=json, url=url)


@commands.command()
def stop(
    names: Names,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Stop instances. Each keeps its disk, and can be started again while the provider has a GPU free there."""
    _do(names, lambda c, i: c.instances.stop(i), Aim.STOPPED, wait=wait, timeout=timeout, json=json, url=url)


@commands.command()
def restart(
    names: Names,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Restart running instances."""
    _do(names, lambda c, i: c.instances.restart(i), Aim.READY, wait=wait, timeout=timeout, json=json, url=url)


@commands.command("rm")
def remove(
    names: Names,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete instances. The service continues until the provider confirms that each is gone."""
    _do(names, lambda c, i: c.instances.delete(i), Aim.GONE, wait=wait, timeout=timeout, json=json, url=url)


def _do(names: Sequence[str], ask: Ask, aim: Aim, *, wait: bool, timeout: float | None, json: bool, url: str) -> None:
    """Request all of them, then wait for each; with *json* print the instances, or the receipts without a wait."""
    with connect(url) as client:
        found = [client.instances.get(named) for named in names]  # all of them, before anything is requested
        asked = [ask(client, instance.id) for instance in found]
        if not wait:
            if json:
                print_json([handle.action for handle in asked])
            else:
                for instance, handle in zip(found, asked, strict=True):
                    print_line(_line(instance, handle.action.status if handle.action else instance.status))
            return
        done = [wait_live(client, handle.id, aim, timeout=timeout, url=url) for handle in asked]
    if json:
        print_json(done)
    else:
        for instance in done:
            print_line(_line(instance, "gone" if instance.is_gone else instance.status))


def _line(instance: Instance, status: str) -> str:
    return f"{instance.name} ({instance.id}) is {status}"
