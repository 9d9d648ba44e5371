"""Keys, made and revoked in one process and recognised in another."""

from __future__ import annotations

import asyncio

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until

from corral.base.clock import SystemClock
from corral.base.settings.settings import CacheSettings
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.access import SHOWN, Access
from corral.domain.errors import GoalRefusedError, NotFoundError, SettingsError, StoreUnavailableError
from corral.engine.auth.api_keys import ApiKeys, create_key, list_keys, revoke_key
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.notifications import Notifications


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def book(clock: SteppedClock) -> CacheRegistry:
    return CacheRegistry(CacheSettings(), clock)


@pytest.fixture
def ring(database: Database, book: CacheRegistry, clock: SteppedClock) -> ApiKeys:
    return ApiKeys(database, book, clock)


async def test_a_key_is_recognised_and_stored_nowhere(database: Database, ring: ApiKeys, clock: SteppedClock) -> None:
    """A reader of the whole database cannot call."""
    key, text = await create_key(database, name="ci", access=Access.OPERATOR, now=clock.now())
    found = await ring.find(text)
    async with database.connection() as connection:
        tables = await connection.fetch("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'corral%'")
        rows = [
            str(tuple(row))
            for table in tables
            for row in await connection.fetch(f"SELECT t::text FROM {table['relname']} t")  # noqa: S608  # a test's own
        ]

    assert found == key
    assert (key.name, key.access, key.prefix) == ("ci", Access.OPERATOR, text[:SHOWN])
    assert any(key.id in row for row in rows)
    assert [row for row in rows if text in row or text[SHOWN:] in row] == []


async def test_a_thousand_requests_cost_one_query(
    database: Database, ring: ApiKeys, book: CacheRegistry, clock: SteppedClock
) -> None:
    """Also when most of them carry a wrong key."""
    _, text = await create_key(database, name="ci", access=Access.VIEWER, now=clock.now())
    found = [await ring.find(text if number % 10 == 0 else f"corral_{number}") for number in range(1000)]

    assert len([one for one in found if one is not None]) == 100
    assert book[CacheName.API_KEYS].stats().misses == 1


async def test_a_revoked_key_is_refused_by_another_process(target: DatabaseTarget, database: Database) -> None:
    """At once: a notice, not the end of a cache's time."""
    clock = SystemClock()
    book = CacheRegistry(CacheSettings(), clock)
    shared, notices = CacheInvalidation(book, database), Notifications(target, clock)
    shared.listen(notices)
    listening = asyncio.create_task(notices.run())
    await until(lambda: notices.listening)
    ring = ApiKeys(database, book, clock)
    elsewhere = await Database.connect(target, most_connections=1)

    _, text = await create_key(elsewhere, name="ci", access=Access.VIEWER, now=clock.now())
    assert await ring.find(text) is not None
    await revoke_key(elsewhere, named="ci", now=clock.now())

    async def refused() -> bool:
        return await ring.find(text) is None

    await until(refused, within=8.0)  # a cached key expires after 10 s
    listening.cancel()
    await elsewhere.close()


async def test_a_process_that_hears_nothing_forgets_within_seconds(
    database: Database, ring: ApiKeys, clock: SteppedClock
) -> None:
    """The cache's time is the last resort."""
    _, text = await create_key(database, name="ci", access=Access.VIEWER, now=clock.now())
    assert await ring.find(text) is not None
    await revoke_key(database, named="ci", now=clock.now())
    clock.advance(10)

    assert await ring.find(text) is None


async def test_no_key_is_accepted_without_a_database(database: Database, ring: ApiKeys, clock: SteppedClock) -> None:
    """Once the time of what is held is over, it is not known whether a key still counts."""
    _, text = await create_key(database, name="ci", access=Access.VIEWER, now=clock.now())
    assert await ring.find(text) is not None
    database.pool.terminate()
    assert await ring.find(text) is not None
    clock.advance(10)

    with pytest.raises(StoreUnavailableError):
        await ring.find(text)


async def test_a_name_is_one_key_at_a_time(database: Database, clock: SteppedClock) -> None:
    """So that a name in the audit log means one of them; after a revocation it may be used again."""
    first, _ = await create_key(database, name="ci", access=Access.VIEWER, now=clock.now())
    with pytest.raises(GoalRefusedError, match="there is a key named 'ci'"):
        await create_key(database, name="ci", access=Access.ADMIN, now=clock.now())
    await revoke_key(database, named=first.id, now=clock.now())
    clock.advance(1)
    second, _ = await create_key(database, name="ci", access=Access.ADMIN, now=clock.now())

    assert [(key.id, key.revoked_at is None) for key in await list_keys(database)] == [
        (first.id, False),
        (second.id, True),
    ]


@pytest.mark.parametrize("named", ["missing", "", "\0", "x" * 300])
async def test_revoking_an_unknown_key_is_reported(database: Database, clock: SteppedClock, named: str) -> None:
    """Also what no key could be called."""
    with pytest.raises(NotFoundError, match="no key in use is called"):
        await revoke_key(database, named=named, now=clock.now())


async def test_a_bad_name_is_reported(database: Database, clock: SteppedClock) -> None:
    """With what is accepted."""
    with pytest.raises(SettingsError, match="cannot name a key"):
        await create_key(database, name="two words", access=Access.ADMIN, now=clock.now())


async def test_the_last_use_is_noted_and_never_goes_back(
    database: Database, ring: ApiKeys, clock: SteppedClock
) -> None:
    """However many processes note it in whatever order."""
    _, text = await create_key(database, name="ci", access=Access.VIEWER, now=clock.now())
    other = ApiKeys(database, CacheRegistry(CacheSettings(), clock), clock)
    await other.find(text)
    clock.advance(5)
    await ring.find(text)
    used_at = clock.now()
    await ring.note_uses()
    await other.note_uses()

    assert [key.last_used_at for key in await list_keys(database)] == [used_at]


async def test_a_revocation_is_on_disk_before_it_is_reported(database: Database, clock: SteppedClock) -> None:
    """Else a crash of the database server could bring a revoked key back."""
    async with database.connection() as connection:
        await connection.execute("""
            CREATE TABLE commits (setting text);
            CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              INSERT INTO commits VALUES (current_setting('synchronous_commit'));
              RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON corral_keys DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION note();
        """)
    key, _ = await create_key(database, name="ci", access=Access.VIEWER, now=clock.now())
    await revoke_key(database, named=key.id, now=clock.now())
    async with database.connection() as connection:
        settings = await connection.fetch("SELECT setting FROM commits")

    assert [row["setting"] for row in settings] == ["on", "on"]
