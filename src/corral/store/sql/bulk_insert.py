"""
Statements that insert many rows at once, in two forms.

Values that differ from row to row are sent as arrays. A column in which all rows agree is sent as one value, because
encoding every element of an array takes the driver time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from corral.store.sql.combined_statement import only_if


class BulkInsert:
    """
    One statement for any number of rows.

    In *sql*, `{columns}` is replaced by the names of the columns, and `{rows}` by a table of them in which `place`
    counts the rows. *own* and *shared* are the columns with their types, as in `id text, at timestamptz`: those that
    differ from row to row, and those in which rows mostly agree.
    """

    def __init__(self, sql: str, *, own: str, shared: str) -> None:
        each, alike = ([column.split() for column in listed.split(", ")] for listed in (own, shared))
        self._own, self._each, self._together = len(each), each, alike
        self._sql, self._columns = sql, ", ".join(name for name, _ in each + alike)
        self._form = cache(self._written)
        self.arguments = len(each) + len(alike)
        """How many arguments each form has; *sql* may name more, from the next on."""

    def statement(self, rows: Sequence[tuple[Any, ...]], *, if_: str | None = None) -> tuple[str, list[Any]]:
        """
        The SQL and its arguments for *rows*, at least one, each the values of *own* and then of *shared*.

        In a combined statement nothing is inserted unless the write called *if_* changed a row.
        """
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
        shared = columns[self._own :]
        if any(column.count(column[0]) != len(rows) for column in shared):
            return self._form(is_alike=False, if_=if_), columns
        return self._form(is_alike=True, if_=if_), [*columns[: self._own], *(column[0] for column in shared)]

    def _written(self, *, is_alike: bool, if_: str | None) -> str:
        own, shared = (self._each, self._together) if is_alike else (self._each + self._together, [])
        return self._sql.format(columns=self._columns, rows=_table(own, shared, if_))


def _table(own: Sequence[Sequence[str]], shared: Sequence[Sequence[str]], if_: str | None) -> str:
    arrays = ", ".join(f"${n}::{kind}[]" for n, (_, kind) in enumerate(own, 1))
    values = "".join(f", ${n}::{kind} AS {name}" for n, (name, kind) in enumerate(shared, len(own) + 1))
    names = ", ".join(name for name, _ in own)
    unnested = f"unnest({arrays}) WITH ORDINALITY AS each ({names}, place)"
    condition = "" if if_ is None else f" WHERE {only_if(if_)}"
    return f"(SELECT *{values} FROM {unnested}{condition}) AS new"  # noqa: S608  # constants
