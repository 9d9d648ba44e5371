"""The lease of an instance outlives every write of its record, also by a process that does not know leases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from support.engines.known import FRESH, NOW

from corral.domain.instance import Instance
from corral.domain.leases.lease import (
    EndAction,
    EndCause,
    IdleRule,
    IdleSummary,
    Lease,
    LeaseState,
    Notice,
    Schedule,
    Signal,
)
from corral.store.session.database import Connection, Database
from corral.store.sql.instance_codec import record_of
from corral.store.tables import instances, leases
from corral.store.tables.deliveries import Snapshot

FULL = LeaseState(
    lease=Lease(
        max_duration=timedelta(hours=8),
        idle=IdleRule(after=timedelta(minutes=30), gpu_below=2.5, signals=frozenset({Signal.GPU, Signal.LAST_USED})),
        schedule=Schedule(stop="0 20 * * 1-5", timezone="Europe/Berlin"),
        on_end=EndAction.DELETE,
        grace=timedelta(minutes=5),
    ),
    extended_until=NOW + timedelta(hours=1),
    last_used_at=NOW,
    notice=Notice(cause=EndCause.IDLE, reason="GPU 0 %", given_at=NOW, ends_at=NOW + timedelta(minutes=5)),
    scheduled_at=NOW,
    ended_by=EndCause.SCHEDULE,
    idle=IdleSummary(quiet_since=NOW, gpu=0.0, cpu=None, judged_at=NOW),
)
LEASED = replace(FRESH, lease=FULL)
# As the release before leases writes a record: it reads none, and knows no column for one.
_EARLIER_UPDATE = "UPDATE corral_instances SET record = $2::jsonb, generation = generation + 1 WHERE id = $1"


async def stored(connection: Connection) -> Instance:
    found = await instances.load(connection, FRESH.id)
    assert found is not None
    return found


async def due_at(connection: Connection) -> object:
    return await connection.fetchval("SELECT look_at FROM corral_instances")


async def test_every_write_of_the_record_writes_the_lease(database: Database) -> None:
    """Alone, with others and as a new row; a lease that was removed is gone."""
    async with database.connection() as connection:
        await instances.add([LEASED]).run(connection)
        assert await stored(connection) == LEASED

        shorter = replace(FULL, lease=replace(FULL.lease, max_duration=timedelta(hours=1)), notice=None)
        await instances.update(replace(LEASED, lease=shorter), wake_at=None).run(connection)
        assert (await stored(connection)).lease == shorter

        await instances.update_many([replace(await stored(connection), lease=FULL)], [None]).run(connection)
        assert (await stored(connection)).lease == FULL

        await instances.update(replace(await stored(connection), lease=None), wake_at=None).run(connection)
        assert (await stored(connection)).lease is None


async def test_a_process_of_an_earlier_release_does_not_drop_the_lease(database: Database) -> None:
    """During an upgrade it writes records without leases: an instance that lost its lease would be billed for ever."""
    async with database.connection() as connection:
        await instances.add([LEASED]).run(connection)
        await connection.execute(_EARLIER_UPDATE, FRESH.id, record_of(replace(LEASED, lease=None)))

        assert (await stored(connection)).lease == FULL


async def test_a_change_of_the_lease_alone_names_the_generation_and_only_advances_the_due_time(
    database: Database,
) -> None:
    """An instance that is due earlier stays so; a stale change writes nothing."""
    async with database.connection() as connection:
        await instances.add([FRESH], wake_at=NOW).run(connection)
        assert await leases.change(LEASED, wake_at=NOW + timedelta(hours=1)).run(connection)
        assert (await stored(connection)).lease == FULL
        assert await due_at(connection) == NOW

        assert not await leases.change(FRESH, wake_at=NOW - timedelta(hours=1)).run(connection), "it is stale"
        assert (await stored(connection)).lease == FULL

        assert await leases.change(await stored(connection), wake_at=None).run(connection)
        assert await due_at(connection) == NOW
        assert await leases.change(await stored(connection), wake_at=NOW - timedelta(hours=1)).run(connection)
        assert await due_at(connection) == NOW - timedelta(hours=1)


def test_the_snapshot_of_a_webhook_has_the_lease() -> None:
    """The body is made from it when the webhook is sent."""
    assert Snapshot.of(LEASED, None).instance.lease == FULL
