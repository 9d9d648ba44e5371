"""After a start where no listing is ever right: creates go by a lookup of their names, and by nothing less."""

from __future__ import annotations

import pytest
from support.database.backups import OURS, ready, restore, rows
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.engine.reconcile.create_gate import STUCK_AFTER_SECONDS
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

HIDES_ONE = {"list_shows": "half"}
"""Every other machine is listed, under a filter too: of two, one is not."""


async def waits(engine: SteppedEngine, instance_id: InstanceId) -> bool:
    instance = await engine.get(instance_id)
    return (instance.phase, instance.provider_id) == (Phase.CREATING, None)


def listings(engine: SteppedEngine) -> int:
    return int(engine.sim.calls()["endpoints"]["list"]["total"])


async def without_listings(engine: SteppedEngine, steps: int) -> None:
    """Let time pass in which no listing comes to its end."""
    for _ in range(steps):
        engine.clock.advance(2)
        engine.sim.advance(2)
        await engine.observer.sweep()
        await engine.work()


async def test_a_machine_that_the_list_never_shows_does_not_stop_creates_for_ever(
    database: Database, target: DatabaseTarget
) -> None:
    """The list stays wrong; the filter finds the other machine, and none of the new request."""
    async with stepped_engine(database, target) as engine:
        await ready(engine, [await engine.request_create(), await engine.request_create()])
        engine.sim.set(**HIDES_ONE)
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            instance_id = await again.request_create()
            await again.steps(int(STUCK_AFTER_SECONDS) // 2 - 2)
            assert await waits(again, instance_id), "a list that lags is given the same time"

            await again.until(instance_id, Phase.READY)
        assert engine.sim.ledger(OURS).most_at_once == 1


async def test_a_machine_that_the_filter_finds_is_adopted_and_not_made_again(
    database: Database, target: DatabaseTarget
) -> None:
    """The database is older than the account, and no listing comes to its end."""
    async with stepped_engine(database, target) as engine:
        await ready(engine, [await engine.request_create()])
        lost = await engine.request_create()
        backup = await rows(database)
        originals = await ready(engine, [lost])
        await restore(database, backup)
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await without_listings(again, 100)
            found = await again.get(lost)

        assert found.provider_id == originals[lost]
        assert len(engine.sim.instances(OURS)) == 2


async def test_after_a_restore_the_filter_is_not_relied_upon_before_the_settle_time(
    database: Database, target: DatabaseTarget
) -> None:
    """The filter lags as the list does: it shows a machine that was made right before the restore too late."""
    async with stepped_engine(database, target) as engine:
        await ready(engine, [await engine.request_create()])
        engine.sim.set(list_lag_seconds=50)
        lost = await engine.request_create()
        backup = await rows(database)
        await engine.work()
        await restore(database, backup)
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            await without_listings(again, 100)
            assert (await again.get(lost)).provider_id is not None

        assert len(engine.sim.instances(OURS)) == 2


@pytest.mark.parametrize(
    "quirk", [{"name_filter": "nothing"}, {"name_filter": "exact"}, {"list_shows": "nothing"}, {"list_shows": "half"}]
)
async def test_a_filter_that_does_not_find_what_exists_allows_nothing(
    database: Database, target: DatabaseTarget, quirk: dict[str, str]
) -> None:
    """Nor does a list that lacks several of a few machines; and asking costs little."""
    async with stepped_engine(database, target) as engine:
        await ready(engine, [await engine.request_create() for _ in range(4)])
        engine.sim.set(**quirk)
        async with stepped_engine(database, target, after=engine, listed=False) as again:
            requested = [await again.request_create() for _ in range(10)]
            if "name_filter" in quirk:  # the list itself is right: it never comes to an end
                before = listings(again)
                await without_listings(again, 60)
                assert listings(again) - before <= 40
            else:
                await again.steps(60)
            assert all([await waits(again, instance_id) for instance_id in requested])
            assert len(engine.sim.instances(OURS)) == 4


async def test_without_a_known_machine_one_of_the_account_shows_that_the_filter_works(
    database: Database, target: DatabaseTarget
) -> None:
    """A new database on a large account: nothing of ours is known, but others have machines with names."""
    async with (
        stepped_engine(database, target) as engine,
        stepped_engine(database, target, after=engine, listed=False) as again,
    ):
        instance_id = await again.request_create()
        for name in (None, "foreign-instance-machine"):
            if name is not None:
                await make_foreign(again, name)
            await without_listings(again, 35)
            assert await waits(again, instance_id) == (name is None)


async def make_foreign(engine: SteppedEngine, name: str) -> None:
    order = {"name": name, "productId": "4090.16c62g", "gpuNum": 1, "rootfsSize": 60, "imageUrl": "a/b:1"}
    await engine.sim.ask("/gpu/instance/create", order | {"kind": "gpu", "billingMode": "onDemand"})
