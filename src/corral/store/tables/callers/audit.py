"""
The audit log.

Rows are numbered under a lock that is held until they are committed, so a reader that has read up to number n never
later finds a new one up to n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.domain.access import Access, Caller
from corral.domain.audit import AuditEntry, AuditLine
from corral.store.session.database import Connection
from corral.store.sql.bulk_insert import BulkInsert
from corral.store.sql.combined_statement import Write

_LOCK = "pg_advisory_xact_lock(hashtextextended('corral audit', 0))"
_INSERT = """
WITH locked AS MATERIALIZED (SELECT %s)
INSERT INTO corral_audit ({columns}) SELECT {columns} FROM locked, {rows} ORDER BY place
"""
_COLUMNS = {
    "own": "at timestamptz, instance_id text, request_id text",
    "shared": "who text, key_id text, access text, method text, route text, path text, address text, status integer,"
    " error_code text",
}
_APPEND = BulkInsert(_INSERT % _LOCK, **_COLUMNS)
_APPEND_ASYNC = BulkInsert(_INSERT % f"set_config('synchronous_commit', 'off', true), {_LOCK}", **_COLUMNS)
_STORED = ("at", "method", "route", "path", "instance_id", "address", "status", "error_code", "request_id")
_PAGE = """
SELECT * FROM corral_audit
WHERE id > $1 AND id < $2 AND ($4::text IS NULL OR instance_id = $4) AND ($5::text IS NULL OR who = $5 OR key_id = $5)
ORDER BY id {direction} LIMIT $3
"""
_OLDEST = _PAGE.format(direction="")
_NEWEST = _PAGE.format(direction="DESC")
_NO_END = 2**63 - 1


def append(entries: Sequence[AuditEntry], *, synchronous: bool = True, if_: str | None = None) -> Write:
    """
    Insert *entries*, at least one, in one statement; the lock is held until their transaction ends.

    With *if_*, only if the write of that name changed a row.

    In a combined statement it belongs right after the part that decides whether anything is written: PostgreSQL runs
    the parts after that one from the last to the first, so the lock is taken when the others are done.

    With *synchronous* off, the commit does not wait for the disk. That applies to the whole transaction: use it only
    where the lines are all there is, such as refusals.
    """
    insert = _APPEND if synchronous else _APPEND_ASYNC
    return Write("audit_lines", *insert.statement([_row(entry) for entry in entries], if_=if_))


async def page(
    connection: Connection,
    *,
    limit: int,
    after: int = 0,
    before: int | None = None,
    newest: bool = False,
    instance_id: str | None = None,
    who: str | None = None,
) -> list[AuditLine]:
    """
    The first lines between the numbers *after* and *before*, or with *newest* the last; oldest first.

    *who* is the name of a caller or the id of a key.
    """
    end = _NO_END if before is None else before
    rows = await connection.fetch(_NEWEST if newest else _OLDEST, after, end, limit, instance_id, who)
    return [_line(row) for row in (reversed(rows) if newest else rows)]


def _row(entry: AuditEntry) -> tuple[object, ...]:
    caller = entry.caller
    return (
        entry.at,
        entry.instance_id,
        entry.request_id,
        entry.who,
        None if caller is None else caller.key_id,
        None if caller is None else caller.access,
        entry.method,
        entry.route,
        entry.path,
        entry.address,
        entry.status,
        entry.error_code,
    )


def _line(row: Any) -> AuditLine:
    caller = None
    if row["access"] is not None:
        caller = Caller(name=row["who"], access=Access(row["access"]), key_id=row["key_id"])
    stored = {name: row[name] for name in _STORED}
    return AuditLine(number=row["id"], caller=caller, **stored)
