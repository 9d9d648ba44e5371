"""One session of a process holds the locks of all instances that it reconciles."""

from __future__ import annotations

import asyncio

import pytest
from support.clock.waiting import until
from support.engines.stepped_engine import SteppedEngine

from corral.domain.instance import InstanceId
from corral.engine.reconcile.instance_locks import InstanceLocks
from corral.store.session.database import Database

FIRST, SECOND = InstanceId("inst_first"), InstanceId("inst_second")

_LOCKS = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
AND (classid::bigint << 32 | objid::bigint) IN (SELECT hashtextextended(id, 0) FROM unnest($1::text[]) AS id)
"""


async def _sessions(database: Database, *ids: InstanceId) -> list[int]:
    """The session of each lock of *ids* that is held."""
    async with database.connection() as connection:
        return [row["pid"] for row in await connection.fetch(_LOCKS, list(ids))]


async def _is_free(database: Database, *ids: InstanceId) -> bool:
    return not await _sessions(database, *ids)


async def test_the_locks_of_a_process_are_held_by_one_session(database: Database) -> None:
    """A reconcile that waits for the provider then occupies no connection."""
    locks = InstanceLocks(database)

    await asyncio.gather(locks.acquire(FIRST), locks.acquire(SECOND))
    held = await _sessions(database, FIRST, SECOND)
    await locks.release(FIRST)
    await until(lambda: _is_free(database, FIRST), what="the first lock being free")

    assert len(held) == 2
    assert len(set(held)) == 1
    assert await _sessions(database, SECOND) == held[:1]
    await locks.release(SECOND)  # closing the pool would wait for it


async def test_an_instance_is_locked_once_also_within_one_process(database: Database) -> None:
    """PostgreSQL would grant a session a lock that it has."""
    locks = InstanceLocks(database)

    found = await asyncio.gather(locks.acquire(FIRST), locks.acquire(FIRST))

    assert [one is None for one in found] == [False, True]
    await locks.release(FIRST)


async def test_the_lock_of_another_process_is_not_granted_before_it_is_released(database: Database) -> None:
    ours, theirs = InstanceLocks(database), InstanceLocks(database)
    await theirs.acquire(FIRST)

    refused = await ours.acquire(FIRST)
    await theirs.release(FIRST)
    await until(lambda: _is_free(database, FIRST), what="the lock being free")

    assert refused is None
    assert await ours.acquire(FIRST) is not None
    await ours.release(FIRST)


async def test_a_lock_that_was_just_released_is_granted_again(database: Database) -> None:
    """A reconcile that is repeated at once must not find its own lock."""
    locks = InstanceLocks(database)
    await locks.acquire(FIRST)
    await locks.release(FIRST)

    assert await locks.acquire(FIRST) is not None
    assert len(await _sessions(database, FIRST)) == 1
    await locks.release(FIRST)


async def test_a_caller_that_is_cancelled_leaves_no_lock(database: Database) -> None:
    """A worker cancels its jobs when it stops; the instance must be free for another worker."""
    locks = InstanceLocks(database)
    await locks.acquire(SECOND)
    waiting = asyncio.create_task(locks.acquire(FIRST))
    await asyncio.sleep(0)  # noqa: TID251  # gives way, does not wait
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await until(lambda: _is_free(database, FIRST), what="the lock being free")
    assert await locks.acquire(FIRST) is not None
    for each in (FIRST, SECOND):
        await locks.release(each)


async def test_a_record_that_cannot_be_read_is_an_error_of_its_own_reconcile(
    engine: SteppedEngine, database: Database
) -> None:
    bad, good = [InstanceId(await engine.request_create()) for _ in range(2)]
    async with database.connection() as connection:
        await connection.execute("UPDATE corral_instances SET record = '{}' WHERE id = $1", bad)
    locks = InstanceLocks(database)

    failed, found = await asyncio.gather(locks.acquire(bad), locks.acquire(good), return_exceptions=True)

    assert isinstance(failed, Exception)
    assert not isinstance(found, BaseException)
    assert found is not None
    assert found.instance is not None
    assert found.instance.id == good
    await until(lambda: _is_free(database, bad), what="the lock being free")
    await locks.release(good)


async def test_after_the_session_was_lost_locks_are_taken_in_another(database: Database) -> None:
    """The server ends sessions when it restarts, and other processes end those of a process that was silent."""
    locks = InstanceLocks(database)
    await locks.acquire(FIRST)
    (lost,) = await _sessions(database, FIRST)
    async with database.connection() as connection:
        await connection.execute("SELECT pg_terminate_backend($1)", lost)
    await until(lambda: _is_free(database, FIRST), what="the lock being free")

    async def is_locked() -> bool:
        try:
            return await locks.acquire(SECOND) is not None
        except Exception:  # noqa: BLE001  # the driver may not have noticed the end of the session yet
            return False

    await until(is_locked, what="a lock in another session")
    await locks.release(FIRST)

    assert set(await _sessions(database, SECOND)) != {lost}
    await locks.release(SECOND)


async def test_without_locks_the_session_is_returned_to_the_pool(database: Database) -> None:
    """At shutdown the pool waits for connections that are in use."""
    locks = InstanceLocks(database)
    async with database.connection():
        pass
    before = database.pool.get_size() - database.pool.get_idle_size()
    await locks.acquire(FIRST)
    during = database.pool.get_size() - database.pool.get_idle_size()
    await locks.release(FIRST)

    await until(lambda: database.pool.get_size() - database.pool.get_idle_size() == before, what="an idle pool")
    assert during == before + 1
