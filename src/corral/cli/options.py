"""Options that many commands share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated

import typer

from corral_client import Client, CorralError
from corral_client.models.instances import GONE

RETRIES = 2
"""A person waits for the command, so it fails early."""

COMPLETE_WITHIN_SECONDS = 2.0
"""Completion must not wait for a service that cannot be reached."""


def _completion(offer: Callable[[Client], Iterable[tuple[str, str]]]) -> Callable[..., list[tuple[str, str]]]:
    """A function that returns completions with a description each; none when the service does not answer."""

    def offered(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        try:
            with Client(context.params.get("url"), timeout=COMPLETE_WITHIN_SECONDS, max_retries=0) as client:
                return [one for one in offer(client) if one[0].startswith(incomplete)]
        except CorralError:
            return []

    return offered


def _instance_names(client: Client) -> list[tuple[str, str]]:
    """Names of live instances; of those that share one, the ids."""
    live = [i for i in islice(client.instances.list(page_size=500), 2000) if i.status not in GONE]
    shared = Counter(i.name for i in live)
    return [(i.name if shared[i.name] == 1 else i.id, f"{i.status}, {i.region}") for i in live]


def _labels(client: Client) -> list[str]:
    """Labels of live instances, as `key=value`."""
    live = (i for i in islice(client.instances.list(page_size=500), 2000) if i.status not in GONE)
    return sorted({f"{key}={value}" for i in live for key, value in i.labels.items()})


offered_names = _completion(_instance_names)
offered_products = _completion(lambda client: dict.fromkeys((p.name, "") for p in client.products.list()))
offered_templates = _completion(lambda client: [(t.id, t.name) for t in client.templates.list()])
offered_volumes = _completion(lambda client: [(f"{v.id}:/", f"{v.name}, {v.region}") for v in client.volumes()])
offered_label_names = _completion(
    lambda client: dict.fromkeys((f"label:{label.partition('=')[0]}", "") for label in _labels(client))
)
offered_labels = _completion(lambda client: dict.fromkeys((label, "") for label in _labels(client)))

Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="Where the service is; else CORRAL_URL, else as `corral login` said, else http://127.0.0.1:3000."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Named = Annotated[str, typer.Argument(metavar="NAME", help="Name or id.", autocompletion=offered_names)]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME...]", help="Names or ids.", autocompletion=offered_names)
]
Timeout = Annotated[float | None, typer.Option(help="Most seconds to wait; the service continues after that.", min=0)]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done. Ctrl-C ends the wait only.")]


def connect(url: str | None) -> Client:
    """A client of the service at *url*; None for the one of the environment or the login."""
    return Client(url, max_retries=RETRIES)
