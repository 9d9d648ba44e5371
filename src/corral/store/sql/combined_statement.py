"""
Writes as values: a store function returns a `Write`, and the caller runs it alone or combined with others.

`run_combined` sends several in one round trip: all of them happen, or none. PostgreSQL evaluates all parts of a
statement on one snapshot, so no part sees the rows another one wrote; a part can only depend on what an earlier one
returned (`only_if`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from corral.store.session.database import Connection


class Write(NamedTuple):
    """One statement that changes rows, to be run alone or together with others."""

    name: str
    """The name by which a later part of a combined statement refers to the rows that this one returned."""
    sql: str
    arguments: Sequence[object]

    async def run(self, connection: Connection) -> list[Any]:
        """Run the statement by itself, in the transaction that *connection* has open or its own; return its rows."""
        rows: list[Any] = await connection.fetch(self.sql, *self.arguments)
        return rows


def only_if(name: str | None) -> str:
    """A condition that holds if the earlier part called *name* changed a row; without a name it always holds."""
    return "true" if name is None else f"EXISTS (SELECT FROM {name})"


async def run_combined(connection: Connection, writes: Sequence[Write], answer: str) -> Any:
    """Run *writes* as one statement; return the row that the query *answer* selects from what they returned."""
    sql, arguments = combined(writes, answer)
    return await connection.fetchrow(sql, *arguments)


def combined(writes: Sequence[Write], answer: str) -> tuple[str, Sequence[object]]:
    """*writes* as one statement, which returns the row that the query *answer* selects, and its arguments."""
    parts = tuple((write.name, write.sql, len(write.arguments)) for write in writes)
    return _statement(parts, answer), [argument for write in writes for argument in write.arguments]


@lru_cache(maxsize=256)
def _statement(parts: tuple[tuple[str, str, int], ...], answer: str) -> str:
    """The whole statement, with all arguments numbered from 1."""
    named: list[str] = []
    before = 0
    for name, sql, count in parts:
        named.append(f"{name} AS ({_shifted(sql, before)})")
        before += count
    return f"WITH {', '.join(named)} {answer}"


def _shifted(sql: str, by: int) -> str:
    return re.sub(r"\$(\d+)", lambda found: f"${int(found[1]) + by}", sql)
