"""`corral port-forward` and `open`: what a machine serves, on this computer."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlsplit

import typer

from corral.cli.options import Named, Url, connect
from corral.cli.output import print_line, print_note
from corral.cli.remote.errors import RemoteError
from corral.cli.remote.forward import check_free, forward, read_forward
from corral.cli.remote.places import places
from corral.domain.errors import MalformedError
from corral_client import Client, Instance

commands = typer.Typer()


@commands.command("port-forward", rich_help_panel="Use a machine")
def port_forward(
    named: Named,
    ports: Annotated[list[str], typer.Argument(metavar="PORT[:REMOTE]...", help="Port here, and on the machine.")],
    url: Url = None,
) -> None:
    """
    Make ports of a machine available on 127.0.0.1, through ssh, until Ctrl-C.

    8888:80 is the machine's port 80 on port 8888 here. The port need not be open to the internet. The connection is
    opened again after a restart of the machine.
    """
    forwards = [read_forward(text) for text in ports]
    if len({one.local for one in forwards}) < len(forwards):
        raise MalformedError("each port of this computer can be given once")
    check_free(forwards)
    with connect(url) as client:
        instance = client.instances.get(named)
        forward(client, instance.id, forwards, places(), url)


@commands.command("open", rich_help_panel="Use a machine")
def open_in_browser(
    named: Named,
    port: Annotated[int | None, typer.Option(help="This http port, when it has several.")] = None,
    jupyter: Annotated[bool, typer.Option("--jupyter", help="Its Jupyter.")] = False,
    terminal: Annotated[bool, typer.Option("--terminal", help="Its web terminal.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Print the address; do not open it.")] = False,
    url: Url = None,
) -> None:
    """Open what a machine serves in the browser. Without a terminal, or with --print, the address is printed."""
    if jupyter + terminal + (port is not None) > 1:
        raise MalformedError("give one of --port, --jupyter and --terminal")
    with connect(url) as client:
        instance = client.instances.get(named)
        address = (
            _login_address(client, instance, jupyter=jupyter) if jupyter or terminal else _http_address(instance, port)
        )
    if urlsplit(address).scheme not in {"http", "https"} or not address.isprintable() or " " in address:
        raise RemoteError(f"{instance.name} has an address that is no http:// address; it is not opened")
    if print_only or not sys.stdout.isatty() or not webbrowser.open(address):
        print_line(address)
    else:
        print_note(f"Opened {address.partition('?')[0]}")


def _login_address(client: Client, instance: Instance, *, jupyter: bool) -> str:
    found = client.instances.credentials(instance.id)
    login = found.jupyter if jupyter else found.web_terminal
    if login is None:
        raise RemoteError(
            f"{instance.name} is {instance.status} and offers no {'Jupyter' if jupyter else 'web terminal'}"
        )
    return login.address


def _http_address(instance: Instance, port: int | None) -> str:
    served = {one.port: one.endpoint for one in instance.port_mappings if one.type == "http" and one.endpoint}
    if port is None and served:
        return str(next(iter(served.values())))
    if port not in served:
        what = "no http port" if port is None else f"no http port {port}"
        known = f"; it has {', '.join(map(str, served))}" if served else ""
        raise RemoteError(f"{instance.name} is {instance.status} and has {what} that can be reached{known}")
    return str(served[port])
