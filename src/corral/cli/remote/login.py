"""
The system's ssh with the login of a machine.

The password reaches ssh through SSH_ASKPASS: ssh starts this executable again with its prompt as the argument, and
`askpass.py` reads the password from the service and prints it into ssh's pipe. ssh closes every inherited descriptor,
so that a pipe of ours would not reach it; arguments are visible to all users, and a file would outlive the command.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from corral.cli.remote.askpass import ASKED_FOR
from corral.cli.remote.errors import RemoteError
from corral.cli.remote.places import Places
from corral_client import Client, Instance, SshLogin

_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HOST: Final = re.compile(r"(?!.{254})[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLogin:
    """Where ssh connects to; each part was checked and is safe as an argument."""

    instance_id: str
    name: str
    user: str
    host: str
    port: int
    has_password: bool


def machine_login(client: Client, instance: Instance) -> MachineLogin:
    """The login of *instance*, read from the provider now; raises RemoteError when it offers none."""
    found = client.instances.credentials(instance.id).ssh
    if found is None:
        raise RemoteError(
            f"{instance.name} is {instance.status} and offers no ssh; `corral why {instance.id}` says more"
        )
    return checked(instance, found)


def checked(instance: Instance, login: SshLogin) -> MachineLogin:
    """*login* if each part has its form: a host that begins with `-` would be an option of ssh."""
    if not (
        _USER.fullmatch(login.user) and _is_host(login.host) and login.port in _PORTS and _ID.fullmatch(instance.id)
    ):
        raise RemoteError(f"the ssh login of {instance.name} has parts that are no user, host and port; it is not used")
    return MachineLogin(
        instance_id=instance.id,
        name=instance.name,
        user=login.user,
        host=login.host,
        port=login.port,
        has_password=login.password is not None,
    )


def ssh_words(
    login: MachineLogin, places: Places, *, options: Sequence[str] = (), command: Sequence[str] = ()
) -> list[str]:
    """The ssh command for *login* with *options*, which runs *command*, or a shell."""
    settings = [
        f"UserKnownHostsFile={quoted(str(places.host_keys(login.instance_id)))}",
        f"HostKeyAlias={login.instance_id}",
        "StrictHostKeyChecking=accept-new",
        "UpdateHostKeys=no",
        "CheckHostIP=no",
    ]
    if login.has_password:  # a key would be tried first, and its passphrase asked for
        settings += ["PreferredAuthentications=password,keyboard-interactive", "NumberOfPasswordPrompts=1"]
    words = [ssh_program(), *(word for setting in settings for word in ("-o", setting)), *options]
    return [*words, "-p", str(login.port), "--", f"{login.user}@{login.host}", *command]


def ssh_environment(login: MachineLogin, url: str | None) -> dict[str, str]:
    """The environment in which ssh gets the password of *login* from this executable."""
    found = dict(os.environ)  # noqa: TID251  # ssh is started with it
    if login.has_password:
        found |= {"SSH_ASKPASS": executable(), "SSH_ASKPASS_REQUIRE": "force", ASKED_FOR: login.instance_id}
    if url is not None:
        found["CORRAL_URL"] = url
    return found


def ssh_program(name: str = "ssh") -> str:
    """The path of the system's ssh, or of a program that comes with it; raises RemoteError when there is none."""
    found = shutil.which(name)
    if found is None:
        raise RemoteError(
            f"{name} is not installed on this machine; it is in the package openssh-client (Debian, Ubuntu) or "
            "openssh-clients (Fedora)"
        )
    return found


def executable() -> str:
    """The path of `corral` itself; raises RemoteError when it was started in a way that has none."""
    for path in (sys.argv[0], Path(sys.executable).parent / "corral", shutil.which("corral")):
        if path is not None and Path(path).name == "corral" and os.access(path, os.X_OK):
            return str(Path(path).absolute())
    raise RemoteError("the executable `corral` was not found; install the package, so that ssh can start it")


def quoted(path: str) -> str:
    """*path* as a value of ssh's configuration; raises RemoteError for one that it cannot have."""
    if '"' in path or "\n" in path or "${" in path:
        raise RemoteError(f"ssh cannot use the path {path!r}: it has quotes, a line end or ${{")
    return '"' + path.replace("%", "%%") + '"'


def _is_host(host: str) -> bool:
    if _HOST.fullmatch(host):
        return True
    try:
        return "%" not in host and ip_address(host).version == 6  # noqa: PLR2004  # a zone would be an interface of ours
    except ValueError:
        return False
