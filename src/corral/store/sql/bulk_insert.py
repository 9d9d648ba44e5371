"""
Statements that insert many rows at once, in two forms.

Values that differ from row to row are sent as arrays. A column in which all rows agree is sent as one value, because
encoding every element of an array takes the driver time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class BulkInsert:
    """
    One statement for any number of rows.

    In *sql*, `{columns}` is replaced by the names of the columns, and `{rows}` by a table of them in which `place`
    counts the rows. *own* and *shared* are the columns with their types, as in `id text, at timestamptz`: those that
    differ from row to row, and those in which rows mostly agree.
    """

    def __init__(self, sql: str, *, own: str, shared: str) -> None:
        each, alike = ([column.split() for column in listed.split(", ")] for listed in (own, shared))
        self._own = len(each)
        columns = ", ".join(name for name, _ in each + alike)
        self._mixed = sql.format(columns=columns, rows=_table(each + alike, []))
        self._alike = sql.format(columns=columns, rows=_table(each, alike))

    def statement(self, rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
        """The SQL and its arguments for *rows*, at least one, each the values of *own* and then of *shared*."""
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
        shared = columns[self._own :]
        if any(column.count(column[0]) != len(rows) for column in shared):
            return self._mixed, columns
        return self._alike, [*columns[: self._own], *(column[0] for column in shared)]


def _table(own: Sequence[Sequence[str]], shared: Sequence[Sequence[str]]) -> str:
    arrays = ", ".join(f"${n}::{kind}[]" for n, (_, kind) in enumerate(own, 1))
    values = "".join(f", ${n}::{kind} AS {name}" for n, (name, kind) in enumerate(shared, len(own) + 1))
    names = ", ".join(name for name, _ in own)
    return f"(SELECT *{values} FROM unnest({arrays}) WITH ORDINALITY AS each ({names}, place)) AS new"  # noqa: S608
