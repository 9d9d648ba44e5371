"""
Export and import: all data that cannot be obtained again, as lines of JSON.

An export reads the database of a running service; an import writes into an empty one.

The first line describes the rest (`Header`); every other line is one row. An import trusts no line: each must be
announced by the header, have the shape that this release reads, and be accepted by PostgreSQL. The error gives the
number of the first line that is not, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import msgspec

from corral import __version__
from corral.base.clock import Clock
from corral.domain.audit import command_line_entry
from corral.domain.errors import GoalRefusedError, MalformedError, StoreNewerError
from corral.domain.observation.provider_names import is_installation
from corral.engine.events.publisher import send_job
from corral.engine.recovery.row_shapes import SHAPES, check_row
from corral.jobs.queue import JobQueue
from corral.store.installation import installation_id
from corral.store.session.database import Connection, Database
from corral.store.sql import archive
from corral.store.sql.archive import BadRowError
from corral.store.tables.callers import audit

FORMAT: Final = 1
LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes. A row takes a few kilobytes; a file without line ends must not fill the memory."""
_BATCH: Final = 500
_LONGEST_QUOTE: Final = 300
"""Characters of a bad line that an error message quotes."""

OnProgress = Callable[[int, int], None]
"""Called with the number of rows done, and of all rows."""


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The first line: what the rest contains."""

    corral: str = "export"
    format: int
    schema: int
    """The number of the last migration of the database it comes from."""
    release: str
    exported_at: datetime
    installation: str
    counts: dict[str, int]
    usage_confirmed_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """Until when the usage of machines that are in every listing is certain; files of earlier releases lack it."""

    @property
    def rows(self) -> int:
        """How many lines follow."""
        return sum(self.counts.values())


class _Version(msgspec.Struct):
    """The part of a header that every format has."""

    corral: str
    format: int


_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding a line may raise: no JSON, no UTF-8, another shape, or nested too deeply."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    row: msgspec.Raw


async def export(
    database: Database, clock: Clock, write: Callable[[str], object], *, newest_schema: int, on_progress: OnProgress
) -> Header:
    """
    Call *write* with every line, of one snapshot; the service may run meanwhile.

    Raises GoalRefusedError for a database without a schema, StoreNewerError for a newer schema than *newest_schema*.
    """
    async with archive.snapshot(database) as connection:
        schema = await archive.schema(connection)
        if schema == 0:
            raise GoalRefusedError("there is nothing to export: Corral has never used this database")
        if schema > newest_schema:
            raise StoreNewerError(f"the database has schema {schema}, this release knows up to {newest_schema}")
        header = Header(
            format=FORMAT,
            schema=schema,
            release=__version__,
            exported_at=clock.now(),
            installation=await installation_id.load(connection),
            counts=await archive.counts(connection),
            usage_confirmed_at=await archive.usage_confirmed_at(connection),
        )
        write(msgspec.json.encode(header).decode() + "\n")
        done = 0
        for kind in header.counts:
            async for line in archive.lines(connection, kind):
                write(line + "\n")
                done += 1
                if done % _BATCH == 0:
                    on_progress(done, header.rows)
    return header


def read_header(line: bytes, *, newest_schema: int) -> Header:
    """Read the first line; raises MalformedError when it is not an export's, or needs a newer release."""
    try:
        version = msgspec.json.decode(line, type=_Version)
        if version.corral == "export" and version.format > FORMAT:
            raise MalformedError(
                f"line 1: the file has format {_quoted(version.format)}, this release reads up to {FORMAT}: "
                "use a newer release"
            )
        header = msgspec.json.decode(line, type=Header)
    except _UNREADABLE as error:
        raise MalformedError(f"line 1: this is not a file that `corral export` wrote ({_quoted(error)})") from error
    if header.corral != "export" or header.format != FORMAT:
        raise MalformedError("line 1: this is not a file that `corral export` wrote")
    if header.schema > newest_schema:
        raise MalformedError(
            f"line 1: the file has schema {_quoted(header.schema)}, this release knows up to {newest_schema}: "
            "use a newer release"
        )
    if not is_installation(header.installation):
        raise MalformedError(f"line 1: {_quoted(header.installation)!r} is not the id of an installation")
    return header


@dataclass(kw_only=True)
class ArchiveImport:
    """One import into an empty database, within one transaction."""

    connection: Connection
    queue: JobQueue
    header: Header
    on_progress: OnProgress

    async def run(self, lines: Iterable[bytes], now: datetime) -> None:
        """
        Insert the rows of *lines*, from the second line on; the caller commits.

        Raises GoalRefusedError for a database that is not empty, MalformedError with the number of the first bad line.
        """
        await self._check_empty()
        await self._check_schema()
        columns = await archive.columns(self.connection)
        found = dict.fromkeys(columns, 0)
        batch, number = _Batch(kind="", rows=[], first=2), 1
        for number, line in enumerate(lines, start=2):
            kind, row = _read(line, number, columns)
            if kind != batch.kind or len(batch.rows) == _BATCH:
                await self._write(batch, columns)
                self.on_progress(number - 2, self.header.rows)
                batch = _Batch(kind=kind, rows=[], first=number)
            batch.rows.append(row)
            found[kind] += 1
        await self._write(batch, columns)
        self._check_counts(found, number)
        await installation_id.replace(self.connection, self.header.installation)
        confirmed_at = self.header.usage_confirmed_at if "usage" in columns else None
        await archive.finish_import(self.connection, now, usage_confirmed_at=confirmed_at)
        if "audit" in columns:  # older schemas have no audit log
            imported = f"{self.header.rows} rows of installation {self.header.installation}"
            await audit.append([command_line_entry("import", imported, now)]).run(self.connection)
        if waiting := await archive.waiting_receivers(self.connection):
            await self.queue.add([send_job(each, host) for each, host in waiting]).run(self.connection)

    async def _check_empty(self) -> None:
        there = {kind: count for kind, count in (await archive.counts(self.connection)).items() if count}
        if there:
            shown = ", ".join(f"{kind}: {count}" for kind, count in there.items())
            raise GoalRefusedError(
                f"the database is not empty ({shown}); import into a new one: another CORRAL_DATA_DIR, or a new "
                "database in DATABASE_URL"
            )

    async def _check_schema(self) -> None:
        schema = await archive.schema(self.connection)
        if schema != self.header.schema:
            raise GoalRefusedError(
                f"the file has schema {self.header.schema} and the database {schema}; import into a database that "
                "no release has used yet, so that it can be brought up to date after"
            )

    async def _write(self, batch: _Batch, columns: Mapping[str, frozenset[str]]) -> None:
        if not batch.rows:
            return
        names = sorted(columns[batch.kind])
        try:
            await archive.add(self.connection, batch.kind, names, batch.rows)
        except BadRowError:
            # One of these lines is bad: find it by inserting them one at a time.
            for number, row in enumerate(batch.rows, start=batch.first):
                try:
                    await archive.add(self.connection, batch.kind, names, [row])
                except BadRowError as error:
                    raise MalformedError(f"line {number}: {error}") from error

    def _check_counts(self, found: Mapping[str, int], number: int) -> None:
        for kind, count in self.header.counts.items():
            if found.get(kind, 0) != count:
                raise MalformedError(
                    f"line {number}: the file ends here with {found.get(kind, 0)} lines of kind {kind!r}, "
                    f"its first line promises {count}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Consecutive rows of one kind."""

    kind: str
    rows: list[str]
    first: int
    """The line number of the first."""


def _read(line: bytes, number: int, columns: Mapping[str, frozenset[str]]) -> tuple[str, str]:
    """The kind and the row of one line; raises MalformedError with its *number*."""
    if len(line) > LONGEST_LINE:
        raise MalformedError(f"line {number}: it is longer than {LONGEST_LINE} bytes")
    try:
        read = msgspec.json.decode(line, type=_Line)
        if read.kind not in columns:
            raise MalformedError(f"line {number}: there is no kind {_quoted(read.kind)!r}")
        _check_columns(frozenset(msgspec.json.decode(read.row, type=dict[str, msgspec.Raw])), columns[read.kind])
        if read.kind in SHAPES:
            check_row(msgspec.json.decode(read.row, type=SHAPES[read.kind]))
        return read.kind, bytes(read.row).decode()
    except _UNREADABLE as error:
        raise MalformedError(f"line {number}: {_quoted(error)}") from error


def _quoted(value: object) -> str:
    """*value*, which may be text of the file, cut to a readable length."""
    text = str(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def _check_columns(given: frozenset[str], wanted: frozenset[str]) -> None:
    if given != wanted:
        wrong = [f"{name!r} is missing" for name in sorted(wanted - given)]
        wrong += [f"{name!r} is not known" for name in sorted(given - wanted)]
        raise ValueError("; ".join(wrong))
