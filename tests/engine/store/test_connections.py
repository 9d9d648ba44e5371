"""What a new connection costs the server."""

from __future__ import annotations

from typing import Any

import asyncpg

from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import ClosingConnection


async def test_types_that_every_server_has_are_read_once_a_process(target: DatabaseTarget) -> None:
    """The driver reads them on every connection; the query takes the server longer than a create does."""
    asked: list[str] = []

    def note(record: Any) -> None:
        asked.append(record.query)

    for _ in range(2):
        asked.clear()
        connection: Any = await asyncpg.connect(**target.arguments(), connection_class=ClosingConnection)
        try:
            with connection.query_logger(note):
                assert await connection.fetchval("SELECT $1::bytea[]", [b"a", b"b"]) == [b"a", b"b"]
                assert await connection.fetchval("SELECT $1::timestamptz[]", []) == []
        finally:
            await connection.close()

    assert [query for query in asked if "typeinfo" in query] == []
