"""Options of `corral create` that say what runs on the machine, and the part of the order that they make."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from corral.cli.create_options.env_files import STDIN, assignments, read_env_file, secret_assignments
from corral.cli.options import offered_labels, offered_volumes
from corral.domain.errors import MalformedError
from corral_client.models.orders import VolumeOrder

_WHAT = "What runs on it"

Image = Annotated[
    str | None, typer.Option(help="Container image; the template is then optional.", rich_help_panel=_WHAT)
]
ImageAuth = Annotated[
    str | None,
    typer.Option(metavar="ID", help="The provider's registry login for the image.", rich_help_panel=_WHAT),
]
Command = Annotated[str | None, typer.Option(help="Command of the container.", rich_help_panel=_WHAT)]
Entrypoint = Annotated[str | None, typer.Option(help="Entrypoint of the container.", rich_help_panel=_WHAT)]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="Environment variable; NAME alone takes yours. Many.", rich_help_panel=_WHAT
    ),
]
EnvFile = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Variables, one NAME=VALUE a line; --env wins.", rich_help_panel=_WHAT),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=@FILE]",
        help="Variable that is never shown again: its value in your environment, or the text of a file. Many.",
        rich_help_panel=_WHAT,
    ),
]
SecretFile = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Secrets, one NAME=VALUE a line; - is standard input.", rich_help_panel=_WHAT),
]
Port = Annotated[
    list[str] | None,
    typer.Option(metavar="PORT/TYPE", help="Open port, such as 8080/http or 22/tcp. Many.", rich_help_panel=_WHAT),
]
Mount = Annotated[
    list[str] | None,
    typer.Option(
        "--volume",
        metavar="ID:/MOUNT",
        help="Network storage (`corral volumes`) and where it is mounted. Many.",
        autocompletion=offered_volumes,
        rich_help_panel=_WHAT,
    ),
]
MinCuda = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Least CUDA version, such as 12.4.", rich_help_panel=_WHAT)
]
NewLabel = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="KEY=VALUE", help="Label, for filters. Many.", autocompletion=offered_labels),
]


def environment(
    env: Sequence[str] | None,
    env_files: Sequence[str] | None,
    secret: Sequence[str] | None,
    secret_files: Sequence[str] | None,
) -> tuple[dict[str, str], dict[str, str]]:
    """The variables and the secrets of the options; raises MalformedError, which never has a value in it."""
    readers = [*(env_files or ()), *(secret_files or ()), *(s.partition("=@")[2] for s in secret or ())].count(STDIN)
    if readers > 1:
        raise MalformedError("standard input can be read once only: name `-` once")
    callers = dict(os.environ)  # noqa: TID251  # `--env NAME` and `--secret NAME` mean the caller's
    variables = {**_from_files(env_files, "--env-file"), **assignments(env or (), callers, option="--env")}
    hidden = {
        **_from_files(secret_files, "--secret-file"),
        **secret_assignments(secret or (), callers, option="--secret"),
    }
    return variables, hidden


def mounts(given: Iterable[str]) -> list[VolumeOrder]:
    """Volumes as `ID:/MOUNT`."""
    found: list[VolumeOrder] = []
    for one in given:
        volume, separator, mount = one.partition(":")
        if not (separator and volume and mount):
            raise MalformedError(f"--volume {one}: give the id of a volume and a path, such as {volume or 'ID'}:/data")
        found.append(VolumeOrder(id=volume, mount=mount))
    return found


def labels(given: Iterable[str], *, option: str) -> dict[str, str]:
    """Labels as `KEY=VALUE`."""
    found: dict[str, str] = {}
    for one in given:
        key, separator, value = one.partition("=")
        if not (separator and key):
            raise MalformedError(f"{option} {one}: give a key and a value, such as {key or 'team'}=vision")
        if key in found:
            raise MalformedError(f"{option} {key}: it was given twice")
        found[key] = value
    return found


def _from_files(files: Sequence[str] | None, option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in files or ():
        found.update(read_env_file(file, option=option))
    return found
