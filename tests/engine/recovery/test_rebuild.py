"""After the loss of the database, the engine continues with what the account shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from pydantic import SecretStr
from support.database.fresh import new_database
from support.engines.engine_steps import REQUEST
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.cloud.port import Cloud, Listing, OnPage
from corral.domain.errors import CloudTransientError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.rebuild import RebuildOutcome
from corral.domain.operation import OperationKind
from corral.engine.build import build_engine
from corral.engine.ids import random_id
from corral.engine.recovery.rebuild import Rebuilder, RebuildPlan
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances
from corral.store.tables.callers import audit
from corral.store.tables.fleet import instance_pages
from corral.store.tables.fleet.instance_pages import InstanceFilter


@asynccontextmanager
async def rebuilt_engine(server: DatabaseTarget, lost: SteppedEngine) -> AsyncGenerator[SteppedEngine]:
    """An engine over the same account with a database that holds only what was rebuilt."""
    async with new_database(server) as target:
        database = await Database.connect(target, most_connections=12)
        try:
            await rebuild(lost, database, lost.installation)
            async with stepped_engine(database, target, after=lost) as engine:
                yield engine
        finally:
            await database.close()


def rebuilding(engine: SteppedEngine, database: Database, cloud: Cloud | None = None) -> Rebuilder:
    runtime = replace(engine.parts.runtime, cloud=cloud or engine.cloud, database=database, new_id=random_id)
    return Rebuilder(engine=build_engine(runtime))


async def rebuild(engine: SteppedEngine, database: Database, instance_id: str | None = None) -> RebuildPlan:
    at_work = rebuilding(engine, database)
    plan = await at_work.plan(instance_id)
    async with database.transaction() as connection:
        await at_work.record(connection, plan)
    return plan


async def everything(engine: SteppedEngine) -> dict[str, Phase]:
    async with engine.database.connection() as connection:
        ids, _ = await instance_pages.page(connection, InstanceFilter(), limit=100, offset=0)
        found = await instances.by_ids(connection, list(ids), [])
    return {instance.id: instance.phase for instance in found.values()}


async def test_machines_in_every_phase_are_recovered_and_continue(
    engine: SteppedEngine, server: DatabaseTarget
) -> None:
    """Under their old ids; nothing is created or deleted for it, and foreign instances are not touched."""
    foreign = await engine.sim.create("foreign-instance")
    other = await engine.sim.create("corral-ffffff-inst-zz-1")
    ready, stopped, gone = [await engine.request_create() for _ in range(3)]
    for each in (ready, stopped, gone):
        await engine.until(each, Phase.READY)
    await engine.ask(OperationKind.STOP, stopped)
    await engine.until(stopped, Phase.EXITED)
    await engine.request_delete(gone)
    await engine.until(gone, Phase.TERMINATED)
    booting = await engine.request_create()
    await engine.until(booting, Phase.STARTING)
    before = engine.sim.calls()["endpoints"]
    price = (await engine.get(ready)).placement
    async with rebuilt_engine(server, engine) as again:
        await again.until(booting, Phase.READY)
        await again.until(ready, Phase.READY)

        assert await everything(again) == {ready: Phase.READY, booting: Phase.READY, stopped: Phase.EXITED}
        assert (await again.get(ready)).placement == price
        assert again.sim.calls()["endpoints"]["create"] == before["create"]
        assert again.sim.calls()["endpoints"].get("delete") == before.get("delete")
        await again.request_delete(ready)
        await again.until(ready, Phase.TERMINATED)
        await again.ask(OperationKind.START, stopped)
        await again.until(stopped, Phase.READY)
    assert {engine.sim.status(each).value for each in (foreign, other)} == {"running"}
    assert engine.sim.ledger(r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+").twice == {}


async def test_a_second_machine_of_an_instance_is_kept_and_reported(
    engine: SteppedEngine, server: DatabaseTarget
) -> None:
    """It is not known which one is in use; without a record, it would be deleted as a duplicate."""
    instance_id = await engine.request_create()
    first = await engine.until(instance_id, Phase.READY)
    second = await engine.sim.create(f"corral-{engine.installation}-inst-1-2")
    engine.sim.advance(10)
    async with rebuilt_engine(server, engine) as again:
        await again.steps(20)
        found = await everything(again)
        kept = await again.get(instance_id)
        async with again.database.connection() as connection:
            other = await instances.load(connection, str(first.provider_id))

    assert sorted(found.values()) == [Phase.READY, Phase.READY]
    assert (kept.provider_id, kept.create.number) == (second, 2)
    assert other is not None
    assert other.request.name == "inst_1-attempt-1"
    assert len(engine.sim.instances("inst-1")) == 2


async def test_a_record_from_before_its_machine_is_joined_to_it(engine: SteppedEngine) -> None:
    """As after an older backup: no second machine is made."""
    instance_id = await engine.request_create()
    before_ready = await engine.get(instance_id)
    ready = await engine.until(instance_id, Phase.READY)
    async with engine.database.transaction() as connection:
        present = await engine.get(instance_id)
        older = replace(before_ready, generation=present.generation)
        assert await instances.update(older, wake_at=None).run(connection)
    plan = await rebuild(engine, engine.database)
    joined = await engine.until(instance_id, Phase.READY)
    async with engine.database.connection() as connection:
        *_, line = await audit.page(connection, after=0, limit=100)

    assert (line.who, line.method, line.route) == ("command line", "CLI", "rebuild")
    assert line.path == f"1 of 1 machines of installation {engine.installation}"
    assert [one.finding.outcome for one in plan.found] == [RebuildOutcome.JOINED]
    assert joined.provider_id == ready.provider_id
    assert len(engine.sim.instances("inst-1")) == 1
    assert engine.sim.calls()["endpoints"]["create"]["total"] == 1


async def test_rebuilding_again_changes_nothing(engine: SteppedEngine) -> None:
    """What is known is left as it is; looking alone writes nothing either."""
    instance_id = await engine.request_create(REQUEST)
    before = await engine.until(instance_id, Phase.READY)
    plan = await rebuild(engine, engine.database)

    assert plan.to_record == []
    assert await engine.get(InstanceId(instance_id)) == before


class ShortSighted(NovitaCloud):
    """An account with a list that changes too fast to be read to its end."""

    async def instances(self, on_page: OnPage | None = None) -> Listing:
        return replace(await super().instances(on_page), complete=False)


async def test_half_a_list_is_not_taken_for_all(engine: SteppedEngine) -> None:
    """A machine that was missed might be the one that runs."""
    key = SecretStr("key")
    async with HttpExchange(
        base_url=engine.sim.base_url, api_key=key, timeout_seconds=5, clock=engine.clock
    ) as exchange:
        at_work = rebuilding(engine, engine.database, ShortSighted(exchange))
        with pytest.raises(CloudTransientError, match="could not be read to its end"):
            await at_work.plan(None)
