"""`corral verify`: is the provider as Corral assumes, and if not, what follows."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from corral.base.clock import SystemClock
from corral.cli.environment import configuration, configure_logging
from corral.cli.exit_codes import MACHINE_LEFT
from corral.cli.options import Json
from corral.cli.output import print_json, print_line, print_note, print_table
from corral.domain.errors import CloudUnknownError, MalformedError
from corral.domain.verification.trial_names import is_mark

if TYPE_CHECKING:
    from corral.domain.verification.trial_plan import TrialOffer

commands = typer.Typer()

MOST_USD: Final = 10.0
"""Far more than a trial costs: a slip of the finger must not allow a hundred times as much."""


@commands.command(rich_help_panel="The service")
def verify(
    spend: Annotated[
        float | None,
        typer.Option(
            metavar="USD",
            min=0,
            max=MOST_USD,
            help="Also create the cheapest machine for at most 15 minutes, if that costs no more, and delete it.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Create it without asking.")] = False,
    cleanup: Annotated[
        bool, typer.Option("--cleanup", help="Only delete machines that an earlier --spend left behind.")
    ] = False,
    mark: Annotated[
        str | None, typer.Option(metavar="MARK", help="With --cleanup: those of another data directory, by their mark.")
    ] = None,
    json: Json = False,
) -> None:
    """
    Compare the provider's account with everything that Corral assumes about it. Reads only, unless --spend is given.

    Each assumption holds, differs, or was not seen. The report contains nothing of the account and can be attached to
    an issue. Exit code 0 if nothing differs that Corral does not cope with, else 1; 5 if a machine may be left behind.
    """
    configure_logging("error")
    try:
        if cleanup or mark is not None:
            _clean_up(mark, json=json, is_alone=cleanup and spend is None)
        else:
            _verify(spend, yes=yes, json=json)
    except CloudUnknownError as error:
        print_note(f"corral: {error.message}")
        raise typer.Exit(MACHINE_LEFT) from None


def _verify(spend: float | None, *, yes: bool, json: bool) -> None:
    from corral.app import verification  # noqa: PLC0415  # half a second that other commands need not wait

    if spend is not None and not yes and not sys.stdin.isatty():
        raise MalformedError("--spend asks before it creates a machine: add --yes where no person can answer")

    def confirm(offer: TrialOffer) -> bool:
        return yes or _asked(_question(offer))

    report: dict[str, Any] = asyncio.run(
        verification.verify(
            configuration({}).settings, SystemClock(), spend_usd=spend, confirm=confirm, on_progress=_progress
        )
    )
    if json:
        print_json(report)
    else:
        _print(report)
    if report["needsAction"]:
        raise typer.Exit(1)


def _clean_up(mark: str | None, *, json: bool, is_alone: bool) -> None:
    from corral.app import verification  # noqa: PLC0415  # as above

    if not is_alone:
        raise MalformedError("--mark is for --cleanup, and --cleanup is not for --spend")
    if mark is not None and not is_mark(mark):
        raise MalformedError("a mark is six digits or letters from a to f, as in corral-verify-MARK-…")
    removed, others = asyncio.run(
        verification.cleanup(configuration({}).settings, SystemClock(), mark=mark, on_progress=_progress)
    )
    if json:
        print_json({"deleted": removed, "otherMarks": others})
        return
    print_line(
        f"machines that were left behind and are deleted: {removed}" if removed else "no machine was left behind"
    )
    for other in others:
        print_note(
            f"Another data directory has a trial machine with the mark {other}: "
            f"`corral verify --cleanup --mark {other}` deletes it."
        )


def _asked(question: str) -> bool:
    """The answer of a person; Ctrl-C ends the command at once, which an event loop would put off."""
    of_the_loop = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, of_the_loop)


def _question(offer: TrialOffer) -> str:
    usd = offer.most_micro_usd / 1_000_000
    return (
        f"Create one {offer.product_name} at ${offer.micro_usd / 1_000_000:g}/h for at most ${usd:.4f}, then delete it?"
    )


def _progress(text: str) -> None:
    print_note(f"  {text}")


def _to_do(finding: dict[str, Any]) -> str:
    change = f"change {finding['setting']}" if finding["setting"] else "no setting changes it: attach this to an issue"
    if finding["needsAction"]:
        return change
    return "nothing: Corral copes" + (f"; if it disturbs, {change}" if finding["setting"] else "")


def _print(report: dict[str, Any]) -> None:
    findings = report["findings"]
    print_table(["check", "result", "seen"], [(f["check"], f["result"], f["seen"]) for f in findings], styled="result")
    for finding in findings:
        if finding["result"] == "differs":
            print_line("")
            print_line(f"{finding['check']} differs: {finding['seen']}")
            print_line(f"  assumed: {finding['assumed']}")
            print_line(f"  Corral:  {finding['otherwise']}")
            print_line(f"  to do:   {_to_do(finding)}")
    print_line("")
    print_line(
        f"Corral {report['version']}, {report['provider']}, {report['at']}, {report['calls']} calls: "
        f"{report['holds']} hold, {report['differs']} differ, {report['notSeen']} were not seen."
    )
    if report["trial"] is None and report["notSeen"]:
        print_note("More can be seen on a machine: `corral verify --spend 0.10` creates one and deletes it.")
