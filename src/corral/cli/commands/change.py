"""`corral start`, `stop`, `restart` and `rm`: of instances by name, or of all that filters choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

from corral.cli.commands.listing import hourly, print_instances
from corral.cli.exit_codes import exit_code, explain
from corral.cli.options import Json, Names, Timeout, Url, Wait, connect
from corral.cli.output import print_json, print_line, print_note, rate
from corral.cli.selection import Filters, Label, Name, OlderThan, Owner, Region, Status, confirm, selected
from corral.cli.waiting import wait as wait_live
from corral.domain.errors import MalformedError
from corral_client import (
    Action,
    Aim,
    Client,
    ConnectionFailed,
    CorralError,
    Instance,
    InstanceFailed,
    InstanceHandle,
    Unauthorised,
)
from corral_client.sync.instances import Instances

commands = typer.Typer()

All = Annotated[bool, typer.Option("--all", help="Every instance that this can be done to.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before filters change instances.")]

_FINAL: Final = (ConnectionFailed, Unauthorised)
"""Errors after which the next instance would fail as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCommand:
    """One of the four commands."""

    word: str
    action: str
    """As `allowedActions` of an instance calls it."""
    act: Callable[[Instances, str], InstanceHandle]
    aim: Aim
    help: str


CHANGES: Final = (
    ChangeCommand(
        word="start",
        action="start",
        act=Instances.start,
        aim=Aim.READY,
        help="Start stopped instances, or failed ones that still exist.",
    ),
    ChangeCommand(
        word="stop",
        action="stop",
        act=Instances.stop,
        aim=Aim.STOPPED,
        help="Stop instances. The provider keeps the disk of each for some days; until then it can be started again if "
        "the provider has a GPU free there.",
    ),
    ChangeCommand(
        word="restart", action="restart", act=Instances.restart, aim=Aim.READY, help="Restart running instances."
    ),
    ChangeCommand(
        word="rm",
        action="delete",
        act=Instances.delete,
        aim=Aim.GONE,
        help="Delete instances. The service continues until the provider confirms that each is gone.",
    ),
)


@dataclass(slots=True, kw_only=True)
class _Report:
    """What became of each instance, printed as it is known."""

    json: bool
    count: int
    done: list[Instance | Action | None] = field(default_factory=list)
    code: int = 0

    def add(self, named: str, result: Instance | Action | None, line: str) -> None:
        """Report that *named* was changed."""
        self.done.append(result)
        if not self.json:
            print_line(f"{named} {line}")

    def fail(self, named: str, error: CorralError) -> None:
        """Report that *named* was not changed; the first failure is the exit code."""
        self.code = self.code or exit_code(error)
        prefix = "" if self.count == 1 or isinstance(error, InstanceFailed) else f"{named}: "
        print_note(f"corral: {prefix}{explain(error)}")


def _add(change: ChangeCommand) -> None:
    @commands.command(change.word, help=change.help, rich_help_panel="Instances")
    def run(
        names: Names = None,
        status: Status = None,
        name: Name = None,
        region: Region = None,
        owner: Owner = None,
        label: Label = None,
        older_than: OlderThan = None,
        all_of_them: All = False,
        yes: Yes = False,
        wait: Wait = False,
        timeout: Timeout = None,
        json: Json = False,
        url: Url = None,
    ) -> None:
        filters = Filters(status=status, name=name, region=region, owner=owner, label=label, older_than=older_than)
        _check_choice(names or [], filters, all_of_them=all_of_them)
        with connect(url) as client:
            chosen = names or [one.id for one in _confirmed(client, change, filters, yes=yes)]
            report = _Report(json=json, count=len(chosen))
            try:
                _carry_out(client, change, chosen, report, wait=wait, timeout=timeout, url=url)
            finally:
                if json:
                    print_json(report.done)
        if report.code and report.count > 1:
            print_note(f"{len(report.done)} of {report.count} done.")
        if report.code:
            raise typer.Exit(report.code)


for _change in CHANGES:
    _add(_change)


def _check_choice(names: Sequence[str], filters: Filters, *, all_of_them: bool) -> None:
    if names and (all_of_them or not filters.is_empty):
        raise MalformedError("name instances or choose them by filters, not both")
    if not names and filters.is_empty and not all_of_them:
        raise MalformedError(
            "name instances, or choose them: --status, --name, --region, --owner, --label, --older-than, --all"
        )


def _confirmed(client: Client, change: ChangeCommand, filters: Filters, *, yes: bool) -> list[Instance]:
    """The instances that *filters* choose and that can be changed so, once the list was confirmed."""
    found = [one for one in selected(client, filters)[0] if change.action in one.allowed_actions]
    if not found:
        print_note(f"No instance that can be changed by `corral {change.word}` is like that.")
        return []
    print_instances(found, stderr=True, fit=False)  # names with one beginning must not look alike
    what = "1 instance" if len(found) == 1 else f"{len(found)} instances"
    billed = f", together {rate(hourly(found))}" if hourly(found) else ", none of them billed"
    verb = change.action.capitalize()
    confirm(f"{verb} {what}{billed}?", yes=yes)
    return found


def _carry_out(
    client: Client,
    change: ChangeCommand,
    chosen: Sequence[str],
    report: _Report,
    *,
    wait: bool,
    timeout: float | None,
    url: str | None,
) -> None:
    asked: list[tuple[Instance, InstanceHandle]] = []
    for named in chosen:
        try:
            instance = client.instances.get(named)
            handle = change.act(client.instances, instance.id)
        except _FINAL:
            raise
        except CorralError as error:
            report.fail(named, error)
            continue
        asked.append((instance, handle))
        if not wait:
            status = instance.status if handle.action is None else handle.action.status
            report.add(f"{instance.name} ({instance.id})", handle.action, f"is {status}")
    for instance, handle in asked if wait else ():
        try:
            ended = wait_live(client, handle.id, change.aim, timeout=timeout, url=url)
        except _FINAL:
            raise
        except CorralError as error:
            report.fail(instance.name, error)
            continue
        report.add(f"{ended.name} ({ended.id})", ended, f"is {'gone' if ended.is_gone else ended.status}")
