"""Notices in a database that is older than the account: what was extended since ends only after a new notice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.database.backups import restore, rows
from support.engines.leased import GRACE, MINUTE, lease_events, live, ready
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.errors import StaleError
from corral.domain.instance import Instance
from corral.domain.leases.lease import EndAction, Lease
from corral.domain.lifecycle.phases import Phase
from corral.engine.reconcile.recorder import ReconcileContext
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

HOUR = timedelta(hours=1)
DELETED = Lease(max_duration=HOUR, grace=GRACE, on_end=EndAction.DELETE)


async def noticed(engine: SteppedEngine) -> Instance:
    """An instance that is deleted in about four minutes."""
    instance = await ready(engine, DELETED)
    await live(engine, HOUR - GRACE + MINUTE, step=MINUTE)
    assert [name for name, _ in await lease_events(engine)] == ["ending_soon"]
    return instance


async def test_a_restored_database_gives_its_notices_again(database: Database, target: DatabaseTarget) -> None:
    """As from a copy of the data directory: whether the lease was extended since is not known."""
    async with stepped_engine(database, target) as engine:
        instance = await noticed(engine)
        await restore(database, await rows(database))
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await live(again, GRACE - MINUTE, step=MINUTE)
            assert await again.phase(instance.id) is Phase.READY
            assert [name for name, _ in await lease_events(again)] == ["ending_soon", "ending_soon"]

            await live(again, 3 * MINUTE, step=MINUTE)
            assert await again.phase(instance.id) is Phase.TERMINATED


@pytest.mark.parametrize(("silent", "notices"), [(timedelta(minutes=10), 2), (timedelta(seconds=90), 1)])
async def test_a_service_that_was_away_gives_its_notices_again(
    database: Database, target: DatabaseTarget, silent: timedelta, notices: int
) -> None:
    """Files that were put back in place show only by their last listing; a restart has a recent one."""
    async with stepped_engine(database, target) as engine:
        await noticed(engine)
        async with database.connection() as connection:
            await connection.execute("UPDATE corral_last_look SET noted_at = now() - $1::interval", silent)
        async with stepped_engine(database, target, after=engine) as again:
            await live(again, MINUTE)
            assert [name for name, _ in await lease_events(again)] == ["ending_soon"] * notices


async def test_an_end_is_not_applied_on_a_server_that_took_over(engine: SteppedEngine) -> None:
    """A promoted standby may lack the last extension; this process went on."""
    instance = await noticed(engine)
    engine.clock.advance(GRACE.total_seconds())
    async with engine.database.connection() as connection:
        await connection.execute("UPDATE corral_last_look SET identity = 'another server'")
    context = ReconcileContext(operation=None, wake_at=None, server=datetime(2030, 1, 1, tzinfo=UTC))
    with pytest.raises(StaleError):
        await engine.parts.reconciler.leases.reconcile(context, await engine.get(instance.id))
    await engine.work()

    assert await engine.phase(instance.id) is Phase.READY
