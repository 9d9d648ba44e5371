"""
Statements that insert many rows at once, in two forms.

Values that differ from row to row are sent as arrays. A column in which all rows agree is sent as one value, because
encoding every element of an array takes the driver time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Statement(NamedTuple):
    """SQL and its arguments."""

    sql: str
    arguments: Sequence[Any]


class BulkInsert:
    """
    One statement for any number of rows.

    In *sql*, `{columns}` is replaced by the names of the columns, and `{rows}` by a table of them in which `place`
    counts the rows. *own* and *shared* are the columns with their types: those that differ from row to row, and those
    in which rows mostly agree.
    """

    def __init__(self, sql: str, *, own: Mapping[str, str], shared: Mapping[str, str]) -> None:
        self._own = len(own)
        columns = ", ".join([*own, *shared])
        self._mixed = sql.format(columns=columns, rows=_table({**own, **shared}, {}))
        self._alike = sql.format(columns=columns, rows=_table(own, shared))

    def statement(self, rows: Sequence[tuple[Any, ...]]) -> Statement:
        """The statement for *rows*, at least one, each the values of *own* and then of *shared*."""
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
        shared = columns[self._own :]
        if any(column.count(column[0]) != len(rows) for column in shared):
            return Statement(self._mixed, columns)
        return Statement(self._alike, [*columns[: self._own], *(column[0] for column in shared)])


def _table(own: Mapping[str, str], shared: Mapping[str, str]) -> str:
    arrays = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(own.values(), 1))
    values = "".join(f", ${n}::{kind} AS {name}" for n, (name, kind) in enumerate(shared.items(), len(own) + 1))
    return f"(SELECT *{values} FROM unnest({arrays}) WITH ORDINALITY AS each ({', '.join(own)}, place)) AS new"  # noqa: S608
