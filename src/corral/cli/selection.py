"""Which instances a command is about: filters, and the question before many are changed at once."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Final

import typer

from corral.base.clock import SystemClock
from corral.cli.exit_codes import INTERRUPTED
from corral.cli.options import offered_labels
from corral.cli.output import print_note
from corral.domain.errors import MalformedError
from corral_client import Client, Instance

Status = Annotated[
    list[str] | None, typer.Option(help="Only those with this status, such as failed; may be given several times.")
]
Name = Annotated[str | None, typer.Option(help="Only those with this name.")]
Region = Annotated[str | None, typer.Option(help="Only those in this region.")]
Owner = Annotated[str | None, typer.Option(help="Only those that this key created; `local` without a key.")]
Label = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY[=VALUE]",
        help="Only those with this label; of several, all must hold.",
        autocompletion=offered_labels,
    ),
]
OlderThan = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Only those created longer ago, such as 30m, 12h, 2d or 1w.")
]

PAGE: Final = 500
"""Instances in one response: the most that the service gives."""
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(?:\d{1,5}[smhdw])+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What is asked of an instance; without a status, that it is not gone, unless *gone* ones are wanted too."""

    status: Sequence[str] | None = None
    name: str | None = None
    region: str | None = None
    owner: str | None = None
    label: Sequence[str] | None = None
    search: str | None = None
    older_than: str | None = None
    gone: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether every instance would do."""
        return not any((self.status, self.name, self.region, self.owner, self.label, self.search, self.older_than))

    @property
    def is_exact(self) -> bool:
        """Whether the service itself can count what is asked for."""
        local = self.owner, self.label, self.search, self.older_than
        return not any(local) and len(self.status or ()) <= 1

    @property
    def labels(self) -> list[tuple[str, str | None]]:
        """Each label with its value; None for any value. Raises MalformedError for one without a key."""
        found = [re.fullmatch(r"([^:=]+)(?:[:=](.*))?", one) for one in self.label or ()]
        if None in found:
            raise MalformedError("--label: give a key, or a key and a value, such as team=vision")
        return [(match[1], match[2]) for match in found if match is not None]

    def accept(self, instance: Instance, now: datetime) -> bool:
        """Whether *instance* is as asked for."""
        statuses = {"exited" if status == "stopped" else status for status in self.status or ()}
        is_active = not instance.is_gone and (not statuses or "active" in statuses)
        return (
            (is_active or instance.status in statuses or (self.gone and not statuses))
            and self.name in {None, instance.name}
            and self.region in {None, instance.region}
            and self.accept_locally(instance, now)
        )

    def accept_locally(self, instance: Instance, now: datetime) -> bool:
        """The part of `accept` that the service does not decide, or an earlier release does not."""
        old_enough = self.older_than is None or now - instance.created_at > duration(self.older_than, "--older-than")
        labelled = all(key in instance.labels and value in {None, instance.labels[key]} for key, value in self.labels)
        return old_enough and labelled and self.owner in {None, instance.created_by} and self._is_found(instance)

    def _is_found(self, instance: Instance) -> bool:
        places = (instance.name, instance.id, instance.region, instance.product_name, instance.created_by or "")
        texts = (*places, *instance.labels, *instance.labels.values())
        return self.search is None or any(self.search.casefold() in text.casefold() for text in texts)


def duration(text: str, option: str) -> timedelta:
    """The time that *text* means, such as 30m or 1d12h; raises MalformedError that names *option*."""
    if not _DURATION.fullmatch(text):
        raise MalformedError(f"{option}: {text!r} is no duration such as 30m, 12h, 2d or 1w")
    parts = re.findall(r"(\d+)([smhdw])", text)
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())


def selected(client: Client, filters: Filters, *, limit: int | None = None) -> tuple[list[Instance], int]:
    """Up to *limit* instances as *filters* ask, newest first, and how many there are."""
    now = SystemClock().now()
    if filters.older_than is not None:
        duration(filters.older_than, "--older-than")  # a mistake in it is said before anything is asked for
    if not filters.is_exact or limit is None:
        found = sorted(_read(client, filters, now), key=lambda i: i.created_at, reverse=True)
        return found[:limit], len(found)
    found = list(islice(_read(client, filters, now, page_size=min(limit, PAGE)), limit))
    return found, len(found) if len(found) < limit else _count(client, filters)


def _read(client: Client, filters: Filters, now: datetime, page_size: int = PAGE) -> Iterator[Instance]:
    for status in filters.status or (None,):
        listed = client.instances.list(
            status=status,
            name=filters.name,
            region=filters.region,
            owner=filters.owner,
            label=[key if value is None else f"{key}:{value}" for key, value in filters.labels],
            q=filters.search,
            page_size=page_size,
        )
        for instance in listed:
            visible = status is not None or filters.gone or not instance.is_gone
            if visible and filters.accept_locally(instance, now):
                yield instance


def _count(client: Client, filters: Filters) -> int:
    where = {"name": filters.name, "region": filters.region}
    if filters.status:
        return client.instances.count(status=filters.status[0], **where)
    gone = 0 if filters.gone else client.instances.count(status="terminated", **where)
    return client.instances.count(**where) - gone


def confirm(question: str, *, yes: bool) -> None:
    """
    Return if the answer is yes; exits with 1 if it is no, and with 130 after Ctrl-C.

    Raises MalformedError without a terminal to ask on.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise MalformedError("nothing was changed: --yes confirms the above where there is no terminal to ask on")
    code = 1
    try:
        if typer.confirm(question, err=True):
            return
    except typer.Abort:
        code = INTERRUPTED
    print_note("Nothing was changed.")
    raise typer.Exit(code)
