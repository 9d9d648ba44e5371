"""Many rows are written in one order, so that two writers never wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
from support.clock.waiting import until
from support.engines.stepped_engine import stepped_engine

from corral.domain.instance import Instance, InstanceId
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances

# Rows are then written in the order in which they are given, as PostgreSQL does with large tables.
AS_GIVEN = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


async def test_two_writers_of_the_same_rows_do_not_wait_for_each_other(
    database: Database, target: DatabaseTarget
) -> None:
    """The observer and `syncLocalState` write many rows each; a deadlock would lose one of the two."""
    async with stepped_engine(database, target) as engine:
        one, two = [await engine.get(await engine.request_create()) for _ in range(2)]
    holders = [await asyncpg.connect(**target.arguments()) for _ in range(2)]
    holds = [holder.transaction() for holder in holders]
    for holder, hold, row in zip(holders, holds, (one, two), strict=True):
        await hold.start()
        await holder.execute("SELECT FROM corral_instances WHERE id = $1 FOR UPDATE", row.id)

    async def write(rows: Sequence[Instance]) -> set[InstanceId]:
        async with database.transaction() as connection:
            await connection.execute(AS_GIVEN)
            written = await instances.update_many(rows, [None] * len(rows)).run(connection)
            return {row["id"] for row in written}

    async def are_waiting(count: int) -> bool:
        async with database.connection() as connection:
            return int(await connection.fetchval(WAITING)) == count

    writers = asyncio.gather(write([one, two]), write([two, one]))
    await until(lambda: are_waiting(2), what="two writers that wait")
    await holds[1].rollback()
    await until(lambda: are_waiting(2), what="two writers that wait")
    await holds[0].rollback()
    written = await asyncio.wait_for(writers, 10)
    for holder in holders:
        await holder.close()

    assert sorted(map(len, written)) == [0, 2], "each row is written by one of the two"
