"""After the loss of the database, the engine goes on with what the account shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from pydantic import SecretStr
from support.archives import another
from support.stepped_engine import ORDER, Herd, herding

from corral.base.settings import CacheSettings
from corral.cache.registry import CacheRegistry
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.cloud.port import Listing
from corral.domain.errors import CloudTransientError
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.tables import Phase
from corral.domain.observation.rebuild import RebuildOutcome
from corral.domain.operation import OperationKind
from corral.engine.ids import random_id
from corral.engine.queries.catalog import Catalog
from corral.engine.recovery.rebuild import Rebuilder, RebuildPlan
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances
from corral.store.tables.offers import FailedOffers


@pytest.fixture
async def herd(database: Database, target: DatabaseTarget) -> AsyncGenerator[Herd]:
    async with herding(database, target) as herd:
        yield herd


@asynccontextmanager
async def anew(server: DatabaseTarget, lost: Herd) -> AsyncGenerator[Herd]:
    """An engine over the same account whose database knows only what was rebuilt."""
    async with another(server) as target:
        database = await Database.connect(target, most_connections=12)
        try:
            await rebuild(lost, database, lost.installation)
            async with herding(database, target, after=lost) as herd:
                yield herd
        finally:
            await database.close()


def rebuilding(herd: Herd, database: Database) -> Rebuilder:
    caches, cloud = CacheRegistry(CacheSettings(), herd.clock), herd.observer.cloud
    return Rebuilder(
        cloud=cloud,
        catalog=Catalog(cloud, caches, FailedOffers(database), herd.clock, default_region="CN-HK-01", regions=()),
        database=database,
        tell=herd.news.tell,
        clock=herd.clock,
        new_id=random_id,
        health=HealthCheckSpec(),
    )


async def rebuild(herd: Herd, database: Database, wished: str | None = None) -> RebuildPlan:
    at_work = rebuilding(herd, database)
    picture = await at_work.look(wished)
    async with database.transaction() as connection:
        await at_work.record(connection, picture)
    return picture


async def everything(herd: Herd) -> dict[str, Phase]:
    async with herd.database.connection() as connection:
        found, _ = await instances.page(connection, phases=None, name=None, region=None, limit=100, offset=0)
    return {instance.id: instance.phase for instance in found}


async def test_machines_in_every_phase_are_known_again_and_go_on(herd: Herd, server: DatabaseTarget) -> None:
    """Under their old ids; nothing is created or deleted for it, and strangers are not touched."""
    foreign = await herd.sim.create("somebody-elses")
    other = await herd.sim.create("corral-ffffff-inst-zz-1")
    ready, stopped, gone = [await herd.wish() for _ in range(3)]
    for each in (ready, stopped, gone):
        await herd.until(each, Phase.READY)
    await herd.ask(OperationKind.STOP, stopped)
    await herd.until(stopped, Phase.EXITED)
    await herd.unwish(gone)
    await herd.until(gone, Phase.TERMINATED)
    booting = await herd.wish()
    await herd.until(booting, Phase.STARTING)
    before = herd.sim.calls()["endpoints"]
    price = (await herd.get(ready)).placement
    async with anew(server, herd) as again:
        await again.until(booting, Phase.READY)
        await again.until(ready, Phase.READY)

        assert await everything(again) == {ready: Phase.READY, booting: Phase.READY, stopped: Phase.EXITED}
        assert (await again.get(ready)).placement == price
        assert again.sim.calls()["endpoints"]["create"] == before["create"]
        assert again.sim.calls()["endpoints"].get("delete") == before.get("delete")
        await again.unwish(ready)
        await again.until(ready, Phase.TERMINATED)
        await again.ask(OperationKind.START, stopped)
        await again.until(stopped, Phase.READY)
    assert {herd.sim.status(each).value for each in (foreign, other)} == {"running"}
    assert herd.sim.ledger(r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+").twice == {}


async def test_a_second_machine_of_an_instance_is_kept_and_told(herd: Herd, server: DatabaseTarget) -> None:
    """Which one is in use nobody knows any more; left without a record, it would be deleted as a duplicate."""
    wished = await herd.wish()
    first = await herd.until(wished, Phase.READY)
    second = await herd.sim.create(f"corral-{herd.installation}-inst-1-2")
    herd.sim.advance(10)
    async with anew(server, herd) as again:
        await again.steps(20)
        found = await everything(again)
        kept = await again.get(wished)
        async with again.database.connection() as connection:
            other = await instances.load(connection, str(first.provider_id))

    assert sorted(found.values()) == [Phase.READY, Phase.READY]
    assert (kept.provider_id, kept.attempt) == (second, 2)
    assert other is not None
    assert other.order.name == "inst_1-attempt-1"
    assert len(herd.sim.instances("inst-1")) == 2


async def test_a_record_from_before_its_machine_is_joined_to_it(herd: Herd) -> None:
    """As after an older backup: no second machine is made."""
    wished = await herd.wish()
    wish = await herd.get(wished)
    ready = await herd.until(wished, Phase.READY)
    async with herd.database.transaction() as connection:
        present = await herd.get(wished)
        await instances.write(connection, replace(wish, generation=present.generation), wake_at=None)
    picture = await rebuild(herd, herd.database)
    joined = await herd.until(wished, Phase.READY)

    assert [one.finding.fate for one in picture.found] == [RebuildOutcome.JOINED]
    assert joined.provider_id == ready.provider_id
    assert len(herd.sim.instances("inst-1")) == 1
    assert herd.sim.calls()["endpoints"]["create"]["total"] == 1


async def test_rebuilding_again_changes_nothing(herd: Herd) -> None:
    """What is known is left as it is; looking alone writes nothing either."""
    wished = await herd.wish(ORDER)
    before = await herd.until(wished, Phase.READY)
    picture = await rebuild(herd, herd.database)

    assert picture.to_record == []
    assert await herd.get(InstanceId(wished)) == before


class ShortSighted(NovitaCloud):
    """An account whose list changes too fast to be read to its end."""

    async def instances(self) -> Listing:
        return replace(await super().instances(), complete=False)


async def test_half_a_list_is_not_taken_for_all(herd: Herd) -> None:
    """A machine that was missed might be the one that runs."""
    key = SecretStr("key")
    async with HttpExchange(base_url=herd.sim.base_url, api_key=key, timeout_seconds=5, clock=herd.clock) as exchange:
        at_work = replace(rebuilding(herd, herd.database), cloud=ShortSighted(exchange))
        with pytest.raises(CloudTransientError, match="could not be read to its end"):
            await at_work.look(None)
