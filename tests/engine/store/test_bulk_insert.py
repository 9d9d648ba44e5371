"""Statements that add many rows, on the real database: both forms add the same."""

from __future__ import annotations

from typing import Any

import pytest

from corral.store.session.database import Database
from corral.store.sql.bulk_insert import BulkInsert

ADD = BulkInsert(
    "INSERT INTO made ({columns}) SELECT {columns} FROM {rows} ORDER BY place",
    own="name text",
    shared="size int, note text",
)


@pytest.mark.parametrize(
    ("rows", "arguments"),
    [
        pytest.param([("a", 1, "x"), ("b", 1, "x"), ("c", 1, "x")], [["a", "b", "c"], 1, "x"], id="alike"),
        pytest.param([("a", 1, None), ("b", 1, None)], [["a", "b"], 1, None], id="alike without a value"),
        pytest.param([("a", 1, "x")], [["a"], 1, "x"], id="one"),
        pytest.param([("a", 1, "x"), ("a", 2, "x")], [["a", "a"], [1, 2], ["x", "x"]], id="mixed"),
        pytest.param([("a", 1, None), ("b", 1, "x")], [["a", "b"], [1, 1], [None, "x"]], id="first without a value"),
        pytest.param([("a", 1, "x"), ("b", 1, None)], [["a", "b"], [1, 1], ["x", None]], id="last without a value"),
    ],
)
async def test_rows_are_added_as_they_are(
    database: Database, rows: list[tuple[Any, ...]], arguments: list[Any]
) -> None:
    """In their order; what all share is sent once, and nothing is shared by accident."""
    sql, sent = ADD.statement(rows)
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE made (place serial, name text, size int, note text)")
        await connection.execute(sql, *sent)
        kept = [tuple(row) for row in await connection.fetch("SELECT name, size, note FROM made ORDER BY place")]

    assert (kept, sent) == (rows, arguments)
