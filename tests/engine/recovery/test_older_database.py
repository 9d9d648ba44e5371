"""A database that is older than the account, or a copy of one in use: no machine is made twice, none is deleted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from support.database.archives import exported, imported
from support.database.backups import OURS, ready, restore, rows
from support.database.fresh import new_database
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.orphans import GRACE, Orphan
from corral.domain.operation import OperationKind
from corral.store.installation import last_listing
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import orphans

HOUR = GRACE.total_seconds()


@asynccontextmanager
async def copied(server: DatabaseTarget, original: Database) -> AsyncGenerator[tuple[Database, DatabaseTarget]]:
    """Another database with the same rows and the same mark, as a staging service has it."""
    async with new_database(server) as target:
        database = await Database.connect(target, most_connections=6)
        try:
            async with original.connection() as one, database.connection() as other:
                mark = await one.fetchval("SELECT mark FROM corral_installation")
                await other.execute("UPDATE corral_installation SET mark = $1", mark)
            await restore(database, await rows(original))
            yield database, target
        finally:
            await database.close()


async def noted(database: Database) -> list[Orphan]:
    async with database.connection() as connection:
        return await orphans.load_all(connection)


async def test_an_older_database_adopts_the_machines_it_has_forgotten(
    database: Database, target: DatabaseTarget
) -> None:
    """Six requests recorded but not created at the time of the backup: six machines, the same ones, after it."""
    async with stepped_engine(database, target) as engine:
        requested = [await engine.request_create() for _ in range(6)]
        backup = await rows(database)
        originals = await ready(engine, requested)
        await restore(database, backup)

        async with stepped_engine(database, target, after=engine, listed=False) as again:
            assert await ready(again, requested) == originals

        assert {machine.id for machine in engine.sim.instances(OURS)} == set(originals.values())
        assert engine.sim.ledger(OURS).most_at_once == 1
        assert "delete" not in {name for name, one in engine.sim.calls()["endpoints"].items() if one["total"]}
        assert await noted(database) == []


async def test_nothing_is_created_before_a_listing_was_compared_since_the_start(
    database: Database, target: DatabaseTarget
) -> None:
    """Whatever an earlier process, or the database's own past, says; and then at once."""
    async with stepped_engine(database, target) as engine:
        await engine.step()
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            again.sim.fault("error_500", on="list", count=None)
            instance_id = await again.request_create()
            await again.steps(10)
            waiting = await again.get(instance_id)
            assert (waiting.phase, waiting.waiting is not None and waiting.waiting.code) == (
                Phase.CREATING,
                "ACCOUNT_NOT_LISTED",
            )
            assert engine.sim.instances() == []

            again.sim.no_more_faults()
            await again.until(instance_id, Phase.READY)


async def test_a_listing_that_lacks_a_machine_which_was_not_looked_up_does_not_let_creates_through(
    database: Database, target: DatabaseTarget
) -> None:
    """The list is known to be wrong while a lookup finds what it lacks."""
    async with stepped_engine(database, target) as engine:
        (kept,) = (await ready(engine, [await engine.request_create()])).values()
        engine.sim.set(list_shows="nothing")
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            instance_id = await again.request_create()
            await again.steps(30)
            assert (await again.get(instance_id)).provider_id is None
            assert [machine.id for machine in engine.sim.instances()] == [kept]

            again.sim.set(list_shows="all")
            await again.until(instance_id, Phase.READY)


async def test_a_listing_begun_before_the_process_does_not_count_for_it(
    database: Database, target: DatabaseTarget
) -> None:
    """It may have been read before the machine was made that this database has forgotten."""
    async with stepped_engine(database, target) as engine, database.connection() as connection:
        early = await last_listing.begin(connection)
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await last_listing.compared(connection, early)
            instance_id = await again.request_create()
            await again.work()

            assert (await again.get(instance_id)).provider_id is None


async def test_a_machine_made_within_the_lists_lag_before_the_restore_is_not_made_again(
    database: Database, target: DatabaseTarget
) -> None:
    """The first listing after the start does not show it yet; one that began after the settle time does."""
    async with stepped_engine(database, target, list_lag_seconds=40) as engine:
        instance_id = await engine.request_create()
        backup = await rows(database)
        await engine.work()
        (original,) = [machine.id for machine in engine.sim.instances(OURS)]
        await restore(database, backup)

        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await again.step()
            why = (await again.get(instance_id)).waiting
            assert why is not None
            assert "may be older than the provider account" in why.message
            assert (await again.until(instance_id, Phase.READY)).provider_id == original

        assert engine.sim.ledger(OURS).most_at_once == 1


async def test_a_machine_made_within_the_lists_lag_before_an_import_is_not_made_again(
    server: DatabaseTarget, database: Database, target: DatabaseTarget
) -> None:
    """Neither by the process that reads the first listing after the import, nor by one that starts after it."""
    async with stepped_engine(database, target, list_lag_seconds=40) as engine, new_database(server) as copy:
        instance_id = await engine.request_create()
        await imported(copy, await exported(target))
        await engine.work()
        (original,) = [machine.id for machine in engine.sim.instances(OURS)]
        restored = await Database.connect(copy, most_connections=6)
        try:
            async with stepped_engine(restored, copy, after=engine, listed=False) as first:
                await first.steps(3)
                async with stepped_engine(restored, copy, after=engine, listed=False) as second:
                    await second.steps(3)
                    why = (await second.get(instance_id)).waiting
                    assert why is not None
                    assert "may be older than the provider account" in why.message
                    assert (await second.until(instance_id, Phase.READY)).provider_id == original
        finally:
            await restored.close()

        assert engine.sim.ledger(OURS).most_at_once == 1


@pytest.mark.parametrize("was_created", [True, False])
async def test_a_request_deleted_before_the_settle_time_is_over_is_terminated_after_it(
    database: Database, target: DatabaseTarget, *, was_created: bool
) -> None:
    """The machine that the list does not show yet is deleted, and not left to be billed without a record."""
    settle = (Policy().settle + Policy().longest_create).total_seconds()
    async with stepped_engine(database, target, list_lag_seconds=40) as engine:
        request_create = await engine.request_create()
        backup = await rows(database)
        if was_created:
            await engine.work()
        assert len(engine.sim.instances(OURS)) == was_created
        await restore(database, backup)

        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await again.step()
            await again.ask(OperationKind.DELETE, request_create)
            began = again.clock.monotonic()
            await again.steps(5)
            assert (await again.get(request_create)).phase is Phase.DELETING
            await again.until(request_create, Phase.TERMINATED)
            assert was_created or again.clock.monotonic() - began >= settle - 10

        assert engine.sim.instances(OURS) == []
        assert await noted(database) == []


async def test_a_request_that_fails_after_an_import_is_in_doubt_also_for_the_next_process(
    server: DatabaseTarget, database: Database, target: DatabaseTarget
) -> None:
    """Its create deadline passes before a listing can show its machine: a delete then finds the machine."""
    async with stepped_engine(database, target, list_lag_seconds=40) as engine, new_database(server) as copy:
        instance_id = await engine.request_create(minutes=1)
        lines = await exported(target)
        engine.clock.advance(50)
        await engine.work()
        assert len(engine.sim.instances(OURS)) == 1
        await imported(copy, lines)
        restored = await Database.connect(copy, most_connections=6)
        try:
            async with stepped_engine(restored, copy, after=engine, listed=False) as first:
                await first.until(instance_id, Phase.FAILED, steps=10)
            async with stepped_engine(restored, copy, after=engine, listed=False) as second:
                await second.ask(OperationKind.DELETE, instance_id)
                await second.until(instance_id, Phase.TERMINATED)

            assert engine.sim.instances(OURS) == []
            assert await noted(restored) == []
        finally:
            await restored.close()


async def test_a_request_deleted_right_before_a_restart_is_in_doubt_for_the_next_process(
    database: Database, target: DatabaseTarget
) -> None:
    """No reconcile recorded yet that its create call may be lost."""
    async with stepped_engine(database, target, list_lag_seconds=40) as engine:
        instance_id = await engine.request_create()
        backup = await rows(database)
        await engine.work()
        await restore(database, backup)
        async with stepped_engine(database, target, after=engine, listed=False) as first:
            await first.ask(OperationKind.DELETE, instance_id)
        async with stepped_engine(database, target, after=engine, listed=False) as second:
            await second.until(instance_id, Phase.TERMINATED)

        assert engine.sim.instances(OURS) == []


async def test_after_a_restore_earlier_requests_wait_for_the_settle_time_and_no_longer(
    database: Database, target: DatabaseTarget
) -> None:
    """A request that was made afterwards cannot have a machine and does not wait; nor does the next process."""
    settle = (Policy().settle + Policy().longest_create).total_seconds()
    async with stepped_engine(database, target) as engine:
        earlier = await engine.request_create()
        await restore(database, await rows(database))
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await again.until(await again.request_create(), Phase.READY, steps=15)
            waited = again.clock.monotonic()
            await again.steps(int((settle - waited) // 2))
            assert (await again.get(earlier)).provider_id is None
            await again.steps(4)
            assert (await again.get(earlier)).provider_id is not None
        async with stepped_engine(database, target, after=engine, listed=False) as later:
            instance_id = await later.request_create()
            await later.steps(2)
            assert (await later.get(instance_id)).provider_id is not None


async def test_after_the_settle_time_a_restored_database_counts_as_in_use_if_every_machine_was_found(
    database: Database, target: DatabaseTarget
) -> None:
    """No create of an earlier request says that the wait is over; the next process must not wait again."""
    settle = (Policy().settle + Policy().longest_create).total_seconds()
    async with stepped_engine(database, target) as engine:
        earlier = await engine.request_create()
        backup = await rows(database)
        await engine.work()
        await restore(database, backup)
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await again.until(earlier, Phase.READY)
            await again.until(await again.request_create(), Phase.READY)
            await again.steps(int(settle // 2))
            await again.until(await again.request_create(), Phase.READY)
            pending = await again.request_create()
        async with stepped_engine(database, target, after=engine, listed=False) as later:
            await later.steps(2)
            assert (await later.get(pending)).provider_id is not None


async def test_copies_of_one_database_do_not_delete_each_others_machines(
    server: DatabaseTarget, database: Database, target: DatabaseTarget
) -> None:
    """A staging service on a copy: it adopts or reports what it finds, and deletes its own alone."""
    async with stepped_engine(database, target) as engine:
        shared = await engine.request_create()
        kept = await ready(engine, [shared])
        both = await engine.request_create()  # not created yet at the time of the copy
        async with copied(server, database) as (staging_database, staging_target):
            engine.sim.fault("list_lag", seconds=40)
            await engine.work()
            async with stepped_engine(staging_database, staging_target, after=engine) as staging:
                theirs = await ready(staging, [both])  # the list does not show production's yet
                own = await ready(engine, [both])
                for _ in range(3):
                    await staging.steps(3, seconds=30)
                    await engine.steps(3, seconds=30)
                await staging.ask(OperationKind.DELETE, both)
                await staging.until(both, Phase.TERMINATED)
                await staging.steps(4, seconds=HOUR / 2)
                await engine.steps(4, seconds=HOUR / 2)
                reported = {orphan.provider_id: orphan.kind.value for orphan in await noted(staging_database)}

        alive = {machine.id for machine in engine.sim.instances(OURS)}
        assert own[both] != theirs[both]
        assert alive == {kept[shared], own[both]}
        assert reported == {own[both]: "second_machine"}
        assert await engine.phase(both) is Phase.READY


async def test_a_machine_that_gets_another_id_is_followed(engine: SteppedEngine) -> None:
    """The provider may give it one when it moves the machine: the name stays."""
    instance_id = await engine.request_create()
    (old,) = (await ready(engine, [instance_id])).values()
    engine.sim.set(migrate_keeps_id=False)
    await engine.sim.ask("/gpu/instance/migrate", {"instanceId": old})
    (new,) = [machine.id for machine in engine.sim.instances(OURS) if machine.id != old]
    await engine.steps(20)
    after = await engine.get(instance_id)

    assert (after.provider_id, after.phase, after.failure) == (new, Phase.READY, None)
    assert [machine.id for machine in engine.sim.instances(OURS)] == [new]
    assert await noted(engine.database) == []


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target) as engine:
        yield engine
