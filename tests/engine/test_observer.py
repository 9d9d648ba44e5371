"""The observer's two duties beside each other: looking at the provider, and turning reminders into passes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from support.herd import herding
from support.waiting import until

from corral.cloud.port import Cloud, Listing
from corral.store import instances
from corral.store.database import Database
from corral.store.target import DatabaseTarget


async def test_reminders_do_not_wait_for_a_look_that_takes_long(database: Database, target: DatabaseTarget) -> None:
    """On a small budget a look takes minutes; who is due for a pass gets it meanwhile."""
    async with herding(database, target) as herd:
        instance = await herd.wish()
        async with database.transaction() as connection:
            await connection.execute("DELETE FROM corral_pgqueuer")
            known = await herd.get(instance)
            due = herd.clock.now() + timedelta(seconds=1)
            await instances.write_many(connection, [replace(known, attempt=0)], [due])
        hanging = herd.observer.cloud = _Hanging(herd.observer.cloud)
        running = asyncio.create_task(herd.observer.run())

        async def passes() -> bool:
            herd.clock.advance(0.5)
            async with database.connection() as connection:
                return bool(await connection.fetchval("SELECT count(*) FROM corral_pgqueuer"))

        await until(lambda: hanging.asked, what="a look")
        await until(passes, what="a pass")
        running.cancel()
        await asyncio.wait([running])

        assert hanging.asked == 1
        assert hanging.given_up


class _Hanging:
    """A provider whose list never comes."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.asked = 0
        self.given_up = False

    async def instances(self) -> Listing:
        self.asked += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up = True
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)
