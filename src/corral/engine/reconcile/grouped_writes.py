"""
The writes of reconciles that record something at the same time: one round trip and one commit for all of one kind.

Each stays the statement it would be alone, with its own generation and its own result; the driver sends them together.
A statement that fails does not affect the others: they are then run one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import asyncpg

from corral.engine.batcher import Batcher
from corral.store.session.database import UNREACHABLE, Connection, Database
from corral.store.sql.combined_statement import Write, combined


class _Pending(NamedTuple):
    sql: str
    arguments: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class GroupedWrites:
    """Runs combined writes in groups."""

    database: Database
    _batcher: Batcher[_Pending, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing to write."""
        object.__setattr__(self, "_batcher", Batcher[_Pending, Any](self._run))

    async def run(self, writes: Sequence[Write], answer: str) -> Any:
        """As `run_combined`, in a transaction with others; the first argument of *writes* is the id of the instance."""
        outcome = await self._batcher.add(_Pending(*combined(writes, answer)))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _run(self, group: Sequence[_Pending]) -> list[Any]:
        kinds: dict[str, list[int]] = {}
        # By id, as the observer locks rows: two transactions that lock the same rows then cannot wait for each other.
        for place in sorted(range(len(group)), key=lambda place: group[place].arguments[0]):
            kinds.setdefault(group[place].sql, []).append(place)
        outcomes: list[Any] = [None] * len(group)
        async with self.database.connection() as connection:
            for sql, places in kinds.items():
                rows = await _run_kind(connection, sql, [group[place].arguments for place in places])
                for place, row in zip(places, rows, strict=True):
                    outcomes[place] = row
        return outcomes


async def _run_kind(connection: Connection, sql: str, arguments: list[Sequence[Any]]) -> list[Any]:
    """The row, or the error, of *sql* for each of *arguments*; raises errors of the server."""
    try:
        return list(await connection.fetchmany(sql, arguments))
    except asyncpg.PostgresError as error:
        if isinstance(error, UNREACHABLE):
            raise
        if len(arguments) == 1:
            return [error]
    return [(await _run_kind(connection, sql, [each]))[0] for each in arguments]
