"""`corral export`, `import` and `rebuild`: backups, and records from the provider's list when there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
import uvloop

from corral.base.clock import SystemClock
from corral.cli.environment import configuration, configure_logging
from corral.cli.options import Json
from corral.cli.output import clock_time, price, print_json, print_note, print_table
from corral.domain.errors import MalformedError

if TYPE_CHECKING:
    from corral.engine.recovery.rebuild import Assessment, RebuildPlan

commands = typer.Typer()

PROGRESS_EVERY_SECONDS: Final = 2.0
STANDARD: Final = "-"


@commands.command("export", rich_help_panel="Backup and recovery")
def export_all(
    file: Annotated[
        str, typer.Argument(metavar="[FILE|-]", help="Where to; readable by you alone. `-` is standard output.")
    ] = STANDARD,
) -> None:
    """Write everything that cannot be learnt again as lines of JSON, while the service runs or not."""
    from corral.app import offline_tasks  # noqa: PLC0415  # half a second that other commands need not wait

    settings = configuration({}).settings
    configure_logging("warning")
    with _written(file) as write:
        header = uvloop.run(offline_tasks.export(settings, write, _progress("exported")))
    print_note(f"Exported {header.rows:,} rows of installation {header.installation} (schema {header.schema}).")


@commands.command("import", rich_help_panel="Backup and recovery")
def import_all(file: Annotated[str, typer.Argument(metavar="FILE|-", help="What `corral export` wrote.")]) -> None:
    """Read an export into an empty database: all of it, or nothing. The service must not be running."""
    from corral.app import offline_tasks  # noqa: PLC0415  # as above
    from corral.engine.recovery.archive import LONGEST_LINE  # noqa: PLC0415  # as above
    from corral.store.secrets.key_file import SecretKeyFile  # noqa: PLC0415  # as above

    settings = configuration({}).settings
    configure_logging("warning")
    with _read(file, LONGEST_LINE) as lines:
        header = uvloop.run(offline_tasks.restore(settings, lines, _progress("imported")))
    print_note(
        f"Imported {header.rows:,} rows of installation {header.installation}, as they were at "
        f"{clock_time(header.exported_at)}."
    )
    waiting = header.counts.get("secret", 0)
    if waiting:
        print_note(
            f"{waiting:,} creates wait with encrypted secrets: copy the key file of that installation to "
            f"{SecretKeyFile.of(settings.store).path}, or they fail. `corral doctor` checks it."
        )
    print_note("Machines made since then are not among them: `corral rebuild` finds those, before `corral serve`.")


@commands.command(rich_help_panel="Backup and recovery")
def rebuild(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be recorded, and record nothing.")
    ] = False,
    installation: Annotated[
        str | None, typer.Option(metavar="MARK", help="The installation, where the account has machines of several.")
    ] = None,
    json: Json = False,
) -> None:
    """
    Find every machine of this installation in the provider's account and record those the database does not know.

    For the day on which the database is lost. The service must not be running. Nothing is created, changed or deleted
    at the provider, and machines that no Corral or another one made are not touched.
    """
    from corral.app import offline_tasks  # noqa: PLC0415  # half a second that other commands need not wait
    from corral.engine.recovery.rebuild import unknowable  # noqa: PLC0415  # as above

    settings = configuration({}).settings
    configure_logging("warning")
    plan = uvloop.run(offline_tasks.rebuild(settings, installation=installation, dry_run=dry_run))
    machines = [_described(one) for one in plan.found]
    if json:
        shown = {"dryRun": dry_run, "installation": plan.installation, "machines": machines}
        others = {"otherInstallations": dict(plan.others), "unmarked": plan.unmarked}
        print_json({**shown, **others, "unknown": list(unknowable())})
        return
    facts = ("instanceId", "novitaInstanceId", "attempt", "novitaStatus", "productName", "region")
    print_table(
        ("instance", "machine", "attempt", "is", "product", "region", "price", "outcome"),
        [(*(m[fact] for fact in facts), price(m["price"]), m["outcome"]) for m in machines],
    )
    for line in _summary(plan, dry_run=dry_run):
        print_note(line)
    if plan.to_record:
        print_note("What the provider does not know, and is lost:")
        for lost in unknowable():
            print_note(f"  - {lost}")


@contextmanager
def _written(file: str) -> Generator[Callable[[str], None]]:
    """Where to write: a file gets its name when it is complete, and only its owner can read it."""
    if file == STANDARD:
        with _output(os.dup(sys.stdout.fileno()), "standard output", on_disk=False) as write:
            yield write
        return
    draft = Path(f"{file}.part")
    try:
        with _file_errors(f"cannot write {file}"):
            draft.unlink(missing_ok=True)
            number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with _output(number, file, on_disk=True) as write:
            yield write
        with _file_errors(f"cannot write {file}"):
            draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _output(number: int, name: str, *, on_disk: bool) -> Generator[Callable[[str], None]]:
    """Write to an open file; a failed write raises once, and not again when the file is closed."""
    output = os.fdopen(number, "w", encoding="utf-8")

    def write(text: str) -> None:
        with _file_errors(f"cannot write {name}"):
            output.write(text)

    try:
        yield write
        with _file_errors(f"cannot write {name}"):
            output.flush()
            if on_disk:
                os.fsync(number)
    finally:
        with suppress(OSError):
            output.close()


@contextmanager
def _read(file: str, longest_line: int) -> Generator[Iterator[bytes]]:
    """The lines of a file, as they are asked for; one that is too long is cut, and then rejected for its length."""
    with _file_errors(f"cannot read {file}"):
        given = sys.stdin.buffer if file == STANDARD else Path(file).open("rb")  # noqa: SIM115  # closed below

    def next_line() -> bytes:
        with _file_errors(f"cannot read {file}"):
            return given.readline(longest_line + 1)

    with given:
        yield iter(next_line, b"")


@contextmanager
def _file_errors(what: str) -> Generator[None]:
    """Report a full disk or a closed pipe as such, not as an error of the database."""
    try:
        yield
    except OSError as error:
        raise MalformedError(f"{what}: {error.strerror}") from error


def _progress(done_so: str) -> Callable[[int, int], None]:
    """A callback that prints the progress now and then."""
    clock = SystemClock()
    said_at: float | None = None

    def report(done: int, total: int) -> None:
        nonlocal said_at
        now = clock.monotonic()
        if said_at is None:
            said_at = now
        elif now - said_at >= PROGRESS_EVERY_SECONDS:
            said_at = now
            print_note(f"{done_so} {done:,} of {total:,} rows")

    return report


def _summary(plan: RebuildPlan, *, dry_run: bool) -> list[str]:
    from corral.domain.observation.rebuild import RebuildOutcome  # noqa: PLC0415  # as above

    said = f"{len(plan.to_record)} of {len(plan.found)} machines of installation {plan.installation}"
    lines = [f"Would record {said}; nothing was changed." if dry_run else f"Recorded {said}."]
    twins = [one for one in plan.found if one.finding.outcome is RebuildOutcome.DUPLICATE]
    lines += [
        f"{one.finding.seen.id} is a second machine of {one.finding.origin.instance_id} and has a record of its own, "
        f"{_instance_id(one)}: look which one you need, and delete the other with `corral rm`."
        for one in twins
    ]
    surplus = sum(one.finding.outcome is RebuildOutcome.SURPLUS for one in plan.found)
    if surplus:
        lines.append(
            f"{surplus} belong to instances that have another machine or are gone: the service adopts or reports them."
        )
    for installation, count in sorted(plan.others.items()):
        lines.append(f"Not touched: {count} of installation {installation}.")
    if plan.unmarked:
        lines.append(f"Not touched: {plan.unmarked} that no Corral made.")
    return lines


def _instance_id(one: Assessment) -> str:
    return one.finding.origin.instance_id if one.instance is None else one.instance.id


def _described(one: Assessment) -> dict[str, Any]:
    from corral.domain.placement.pricing import usd  # noqa: PLC0415  # as above

    seen = one.finding.seen
    return {
        "instanceId": _instance_id(one),
        "madeFor": one.finding.origin.instance_id,
        "attempt": one.finding.origin.attempt,
        "novitaInstanceId": seen.id,
        "novitaStatus": seen.provider_status,
        "productName": seen.product_name,
        "region": seen.region,
        "price": None if one.micro_usd is None else usd(one.micro_usd),
        "outcome": one.finding.outcome.value,
    }
