"""Every process hears of a change, on the real database, also after the connection was cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.engines.event_env import EventEnv

from corral.base.settings.settings import CacheSettings
from corral.cache.registry import CacheName, CacheRegistry
from corral.engine.queries.cache_invalidation import CacheInvalidation, forget_on_commit
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.notifications import CHANNEL, Notifications, notify
from corral.store.tables import instances

PRODUCTS, TEMPLATES = CacheName.PRODUCTS, CacheName.TEMPLATES


class Process:
    """What one process has: caches, and an ear."""

    def __init__(self, target: DatabaseTarget, database: Database) -> None:
        self.clock = SteppedClock()
        self.notices = Notifications(target, self.clock)
        self.caches = CacheInvalidation(CacheRegistry(CacheSettings(), self.clock), database)
        self.gaps = 0
        self.caches.listen(self.notices)
        self.notices.on_gap(self._count_gap)

    def _count_gap(self) -> None:
        self.gaps += 1

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Process]:
        task = asyncio.create_task(self.notices.run())
        try:
            await until(lambda: self.gaps == 1, what="listening")
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])

    def holds(self, name: CacheName) -> tuple[str, ...]:
        return self.caches.registry[name].stats().keys

    def fill(self) -> None:
        for key in ("a", "b"):
            self.caches.registry[PRODUCTS].put(key, key)
            self.caches.registry[TEMPLATES].put(key, key)


@pytest.fixture
async def processes(target: DatabaseTarget, database: Database) -> AsyncGenerator[list[Process]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Process(target, database).running()) for _ in range(2)]


async def cut(database: Database) -> int:
    """End every listener's connection from the server's side."""
    async with database.connection() as connection:
        return len(
            await connection.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = $1 AND datname = current_database()",
                CHANNEL,
            )
        )


async def test_a_drop_reaches_every_process(processes: list[Process]) -> None:
    """The one that asked and the one that did not; other keys stay."""
    for process in processes:
        process.fill()

    assert await processes[0].caches.drop(PRODUCTS, "a") is True
    await until(lambda: processes[1].holds(PRODUCTS) == ("b",))
    assert processes[0].holds(PRODUCTS) == ("b",)
    assert processes[1].holds(TEMPLATES) == ("b", "a")
    assert await processes[0].caches.clear() == 3
    await until(lambda: processes[1].holds(PRODUCTS) == processes[1].holds(TEMPLATES) == ())


async def test_a_change_is_announced_on_commit_only(database: Database, processes: list[Process]) -> None:
    """A rolled-back change is none, and a reader must not reload before the new value can be read."""
    for process in processes:
        process.fill()
    with pytest.raises(RuntimeError, match="changed my mind"):
        async with database.transaction() as connection:
            await forget_on_commit(connection, PRODUCTS, "a")
            raise RuntimeError("changed my mind")

    async with database.transaction() as connection:
        await forget_on_commit(connection, TEMPLATES)
    await until(lambda: all(process.holds(TEMPLATES) == () for process in processes))
    assert [process.holds(PRODUCTS) for process in processes] == [("b", "a")] * 2


async def test_a_written_instance_is_forgotten_everywhere(database: Database, processes: list[Process]) -> None:
    """After a write, of one instance or many, no process shows the previous state."""
    room = EventEnv(database, processes[0].clock)
    written, _ = await room.create("a1", "b2")
    for process in processes:
        for key in ("inst_a1", "inst_b2"):
            process.caches.registry[CacheName.INSTANCE_DETAILS].put(key, key)

    async with database.connection() as connection:
        assert await instances.update(written, wake_at=None).run(connection)

    await until(lambda: all(process.holds(CacheName.INSTANCE_DETAILS) == ("inst_b2",) for process in processes))


async def test_a_listener_that_was_cut_off_comes_back_and_distrusts_everything(
    database: Database, processes: list[Process]
) -> None:
    """Notices sent meanwhile are lost for ever, so nothing remembered can be relied on."""
    for process in processes:
        process.fill()
    assert await cut(database) == 2
    await until(lambda: not any(process.notices.listening for process in processes))
    async with database.connection() as connection:
        await forget_on_commit(connection, PRODUCTS, "a")
    assert [process.holds(PRODUCTS) for process in processes] == [("b", "a")] * 2

    def back() -> bool:
        for process in processes:
            process.clock.advance(0.1)
        return all(process.gaps == 2 for process in processes)

    await until(back)
    assert [process.holds(PRODUCTS) for process in processes] == [(), ()]
    for process in processes:
        process.fill()
    await processes[0].caches.drop(PRODUCTS, "b")
    await until(lambda: processes[1].holds(PRODUCTS) == ("a",))


async def test_a_database_that_is_away_is_tried_less_and_less_often(server: DatabaseTarget) -> None:
    """From a tenth of a second up to five."""
    clock = SteppedClock()
    tries: list[float] = []

    class CountingClock(SteppedClock):
        async def sleep(self, seconds: float) -> None:
            tries.append(seconds)
            await clock.sleep(seconds)

    task = asyncio.create_task(Notifications(server.named("nowhere"), CountingClock()).run())

    def eight() -> bool:
        clock.advance(5)
        return len(tries) == 8

    await until(eight)
    task.cancel()
    await asyncio.wait([task])

    assert tries == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_a_quiet_connection_is_tried_now_and_then(database: Database, processes: list[Process]) -> None:
    """A server that vanished without a word would otherwise never be missed."""

    async def last_words() -> set[str]:
        for process in processes:
            process.clock.advance(31)
        async with database.connection() as connection:
            rows = await connection.fetch(
                "SELECT query FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()",
                CHANNEL,
            )
        return {row["query"] for row in rows}

    async def both_tried() -> bool:
        return await last_words() == {"SELECT 1"}

    await until(both_tried)
    processes[1].fill()
    async with database.connection() as connection:
        await forget_on_commit(connection, PRODUCTS)

    await until(lambda: processes[1].holds(PRODUCTS) == ())
    assert [process.gaps for process in processes] == [1, 1]


async def test_what_is_not_a_notice_is_passed_over(database: Database, processes: list[Process]) -> None:
    """Any client may write to the channel; no message may stop the listener."""
    processes[0].fill()
    async with database.connection() as connection:
        for payload in ("", "nonsense", "[1]", "{}", '{"topic":[],"key":1}', '{"topic":"other","key":"a"}'):
            await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)
        await notify(connection, "cache.products", "a")

    await until(lambda: processes[0].holds(PRODUCTS) == ("b",))
    assert processes[0].gaps == 1


async def test_a_notice_names_a_thing_and_is_short(database: Database) -> None:
    """PostgreSQL would refuse it too, but inside a caller's transaction and with its own message."""
    async with database.connection() as connection:
        with pytest.raises(ValueError, match="too long: name the thing"):
            await notify(connection, "cache.products", "x" * 8000)
