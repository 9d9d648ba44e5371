"""Backups: everything that is remembered, out of a running service's database and into an empty one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Final

import typer
import uvloop

from corral.cli.output import clock_time, print_note
from corral.cli.surroundings import configuration
from corral.clock import SystemClock
from corral.domain.errors import MalformedError
from corral.telemetry import configure_logging

commands = typer.Typer()

PROGRESS_EVERY_SECONDS: Final = 2.0
STANDARD: Final = "-"


@commands.command("export")
def export_all(
    file: Annotated[
        str, typer.Argument(metavar="[FILE|-]", help="Where to; readable by you alone. `-` is standard output.")
    ] = STANDARD,
) -> None:
    """Write everything that cannot be learnt again as lines of JSON, while the service runs or not."""
    from corral import recovery  # noqa: PLC0415  # half a second that other commands need not wait

    settings = configuration({}).settings
    configure_logging("warning")
    with _written(file) as output:
        header = uvloop.run(recovery.export(settings, output.write, _progress("exported")))
    print_note(f"Exported {header.rows:,} rows of installation {header.installation} (schema {header.schema}).")


@commands.command("import")
def import_all(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="What `corral export` wrote.")],
) -> None:
    """Read an export into an empty database: all of it, or nothing. The service must not be running."""
    from corral import recovery  # noqa: PLC0415  # as above
    from corral.engine.archive import LONGEST_LINE  # noqa: PLC0415  # as above

    settings = configuration({}).settings
    configure_logging("warning")
    with _read(file) as given:
        lines = iter(lambda: given.readline(LONGEST_LINE + 1), b"")
        header = uvloop.run(recovery.restore(settings, lines, _progress("imported")))
    print_note(
        f"Imported {header.rows:,} rows of installation {header.installation}, as they were at "
        f"{clock_time(header.exported_at)} UTC."
    )
    print_note("Machines made since then are not among them: `corral rebuild` finds those, before `corral serve`.")


@contextmanager
def _written(file: str) -> Generator[IO[str]]:
    """Where to write: a file appears under its name when it is whole, for its owner's eyes only."""
    if file == STANDARD:
        yield sys.stdout
        sys.stdout.flush()
        return
    draft = Path(f"{file}.part")
    try:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as output:
            yield output
            output.flush()
            os.fsync(number)
        draft.replace(file)
    except OSError as error:
        raise MalformedError(f"cannot write {file}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _read(file: str) -> Generator[IO[bytes]]:
    if file == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        given = Path(file).open("rb")  # noqa: SIM115  # closed below; errors of opening are told apart
    except OSError as error:
        raise MalformedError(f"cannot read {file}: {error.strerror}") from error
    with given:
        yield given


def _progress(done_so: str) -> Callable[[int, int], None]:
    """Say how far it is, now and then."""
    clock = SystemClock()
    said_at = clock.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said_at
        if clock.monotonic() - said_at >= PROGRESS_EVERY_SECONDS:
            said_at = clock.monotonic()
            print_note(f"{done_so} {done:,} of {total:,} rows")

    return tell
