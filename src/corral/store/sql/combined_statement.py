"""
Several writes in one round trip to the database: all of them are made, or none.

PostgreSQL shows all parts of a statement the same picture of the data, so no part sees what another wrote. A part may
only ask what an earlier one returned: `EXISTS (SELECT FROM name)` makes it depend on that one having changed something.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from corral.store.session.database import Connection


class Write(NamedTuple):
    """One statement that changes rows, and the name under which later ones may ask what it returned."""

    name: str
    sql: str
    arguments: Sequence[object]


async def run_combined(connection: Connection, writes: Sequence[Write], answer: str) -> Any:
    """Make *writes*, and answer the row that the query *answer* finds in what they return."""
    arguments = [argument for write in writes for argument in write.arguments]
    parts = tuple((write.name, write.sql, len(write.arguments)) for write in writes)
    return await connection.fetchrow(_statement(parts, answer), *arguments)


@lru_cache(maxsize=64)
def _statement(parts: tuple[tuple[str, str, int], ...], answer: str) -> str:
    """The whole statement, with the places of all arguments in one count."""
    named: list[str] = []
    before = 0
    for name, sql, count in parts:
        named.append(f"{name} AS ({_shifted(sql, before)})")
        before += count
    return f"WITH {', '.join(named)} {answer}"


def _shifted(sql: str, by: int) -> str:
    return re.sub(r"\$(\d+)", lambda place: f"${int(place[1]) + by}", sql)
