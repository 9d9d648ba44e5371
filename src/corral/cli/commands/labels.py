"""`corral label` and `corral protect`: the labels of one instance, and whether budgets may stop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from corral.cli.create_options.container import labels
from corral.cli.options import Json, Named, Url, connect
from corral.cli.output import print_json, print_line

commands = typer.Typer()


@commands.command(rich_help_panel="Instances")
def label(
    named: Named,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE|KEY-]...", help="Labels to set, or with - to remove.")
    ] = None,
    json: Json = False,
    url: Url = None,
) -> None:
    """Set, remove or print the labels of an instance. `corral ls --label KEY=VALUE` finds it by them."""
    with connect(url) as client:
        instance = client.instances.get(named)
        wanted = changed(instance.labels, changes or ())
        if wanted != instance.labels:
            instance = client.instances.set_labels(instance.id, wanted)
    if json:
        print_json(instance.labels)
    else:
        for key, value in sorted(instance.labels.items()):
            print_line(f"{key}={value}")


@commands.command(rich_help_panel="Instances")
def protect(
    named: Named,
    off: Annotated[bool, typer.Option("--off", help="Budgets may stop it again.")] = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """Keep budgets from stopping an instance when they are spent."""
    with connect(url) as client:
        instance = client.instances.protect(named, protected=not off)
    if json:
        print_json(instance)
    else:
        print_line(f"{instance.name}: {'protected' if instance.protected else 'budgets may stop it'}")


def changed(present: Mapping[str, str], changes: Sequence[str]) -> dict[str, str]:
    """*present* with each `KEY=VALUE` of *changes* set and each `KEY-` removed; raises MalformedError for others."""
    removed = {one[:-1] for one in changes if one.endswith("-") and "=" not in one}
    added = labels((one for one in changes if not one.endswith("-") or "=" in one), option="label")
    return {key: value for key, value in present.items() if key not in removed} | added
