"""`corral ssh`, `ssh-config` and `ssh-proxy`: logins with the system's own ssh."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from corral.cli.options import Json, Named, Url, connect
from corral.cli.output import print_json, print_line, print_note
from corral.cli.remote.authorize import authorize
from corral.cli.remote.config import PREFIX, config_text, install, is_installed, remove
from corral.cli.remote.errors import RemoteError
from corral.cli.remote.heartbeat import begin, fork_heartbeat
from corral.cli.remote.login import executable, machine_login, ssh_environment, ssh_words
from corral.cli.remote.places import places
from corral.cli.remote.relay import relay
from corral.domain.errors import MalformedError
from corral_client import Client, Instance, NotFound

commands = typer.Typer()


@commands.command(rich_help_panel="Use a machine")
def ssh(
    named: Named,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Run this, not a shell.")
    ] = None,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command a terminal.")] = False,
    password: Annotated[bool, typer.Option("--password", help="Print the password; do not log in.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Print the command; do not run it.")] = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """
    Log in to an instance, or run a command on it; its exit code is passed on.

    Without a terminal and without a command, or with --print, the ssh command is printed instead.
    """
    is_session = bool(command) or (sys.stdin.isatty() and sys.stdout.isatty())
    prints = password or json or print_only or not is_session
    heartbeat = None if prints else fork_heartbeat(url)
    with connect(url) as client:
        instance = client.instances.get(named)
        if password:
            _print_password(client, instance, json=json)
            return
        if prints:
            _print_command(instance, json=json)
            return
        login = machine_login(client, instance)
    found = places()
    found.make()
    words = ssh_words(login, found, options=("-t",) if tty else (), command=command or ())
    begin(heartbeat, login.instance_id)
    os.execve(words[0], words, ssh_environment(login, url))  # noqa: S606  # checked words; ssh takes this process over


@commands.command("ssh-config", rich_help_panel="Use a machine")
def ssh_config(
    installing: Annotated[bool, typer.Option("--install", help="Add it to ~/.ssh/config.")] = False,
    removing: Annotated[bool, typer.Option("--remove", help="Remove all of it again.")] = False,
    url: Url = None,
) -> None:
    """
    Let `ssh corral-NAME` reach every instance by its name, also after a restart; editors and rsync then do too.

    --install adds one line to ~/.ssh/config and makes a key, which a machine is given at the first login. Without an
    option the configuration is printed.
    """
    if installing and removing:
        raise MalformedError("--install and --remove are opposites; give one of them")
    found = places()
    try:
        if installing:
            install(found, executable(), url)
            print_line("Installed. `ssh corral-NAME` now logs in to the instance NAME.")
        elif removing:
            remove(found)
            print_line("Removed.")
        else:
            print(config_text(found, executable(), url), end="")
            if not is_installed(found):
                print_note("This is not installed; `corral ssh-config --install` adds it to ~/.ssh/config.")
    except OSError as error:
        raise RemoteError(f"{error.filename or found.ssh} cannot be changed: {error.strerror or error}") from error


@commands.command("ssh-proxy", rich_help_panel="Use a machine")
def ssh_proxy(named: Named, url: Url = None) -> None:
    """Connect standard input and output to the ssh port of an instance; ssh runs this as its ProxyCommand."""
    found = places()
    with connect(url) as client:
        instance = _of_host(client, named)
        login = machine_login(client, instance)
        if named.startswith(PREFIX):
            found.link(named, login.instance_id)
            problem = authorize(login, instance, found, url)
            if problem is not None:
                print_note(f"corral: the key was not added to {instance.name}: {problem}")
                print_note(f"corral: `corral ssh {instance.id} --password` prints the password that ssh asks for")
    relay(login, url)


def _of_host(client: Client, host: str) -> Instance:
    """The instance that a host name of the configuration means; a name that begins so by itself is found as well."""
    try:
        return client.instances.get(host.removeprefix(PREFIX))
    except NotFound:
        if not host.startswith(PREFIX):
            raise
        return client.instances.get(host)


def _print_password(client: Client, instance: Instance, *, json: bool) -> None:
    login = client.instances.credentials(instance.id).ssh
    if login is None or login.password is None:
        raise RemoteError(f"{instance.name} is {instance.status} and offers no password for ssh")
    if json:
        print_json(login)
    else:
        print_line(login.password)


def _print_command(instance: Instance, *, json: bool) -> None:
    command = instance.connection_details.ssh
    if command is None:
        raise RemoteError(
            f"{instance.name} is {instance.status} and offers no ssh; `corral why {instance.id}` says more"
        )
    if json:
        print_json({"id": instance.id, "ssh": command})
    else:
        print_line(command)
