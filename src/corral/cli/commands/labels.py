"""`corral label`: the labels of one instance."""

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


def changed(present: Mapping[str, str], changes: Sequence[str]) -> dict[str, str]:
    """*present* with each `KEY=VALUE` of *changes* set and each `KEY-` removed; raises MalformedError for others."""
    removed = {one[:-1] for one in changes if one.endswith("-") and "=" not in one}
    added = labels((one for one in changes if not one.endswith("-") or "=" in one), option="label")
    return {key: value for key, value in present.items() if key not in removed} | added
