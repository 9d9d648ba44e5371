"""The data of stopped machines, which the provider purges after some days."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

HOUR = 3600.0
DAY = 24 * HOUR


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    """An engine whose provider has the same date."""
    async with stepped_engine(database, target) as engine:
        engine.sim.advance(engine.clock.now().timestamp() - engine.sim.now())
        yield engine


@pytest.fixture
async def stopped(engine: SteppedEngine) -> Instance:
    """A stopped instance whose data is kept for seven days."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    return await stop(engine, instance_id)


async def stop(engine: SteppedEngine, instance_id: InstanceId) -> Instance:
    await engine.ask(OperationKind.STOP, instance_id)
    found = await engine.until(instance_id, Phase.EXITED)
    assert found.observation.data_kept_until is not None
    return found


async def warnings(engine: SteppedEngine) -> list[tuple[str, datetime]]:
    """Of each warning, how much time its reason says is left, and the date in its data."""
    async with engine.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT reason, data FROM corral_events WHERE type = 'instance.data_expiring' ORDER BY id"
        )
    return [(_left(row["reason"]), datetime.fromisoformat(_data(row)["dataKeptUntil"])) for row in rows]


def _left(reason: str) -> str:
    found = re.search(r"in (\d+ (h|min)):", reason)
    assert found is not None, reason
    return found[1]


def _data(row: Any) -> dict[str, str]:
    stored: dict[str, dict[str, str]] = msgspec.json.decode(row["data"])
    return stored["data"]


async def until_left(engine: SteppedEngine, instance: Instance, hours: float) -> None:
    """Let time pass until the data is kept for so many hours more."""
    until = (await engine.get(instance.id)).observation.data_kept_until
    assert until is not None
    await engine.step((until - engine.clock.now()).total_seconds() - hours * HOUR)


async def test_users_are_warned_48_and_6_hours_before_and_each_once(engine: SteppedEngine, stopped: Instance) -> None:
    until = stopped.observation.data_kept_until
    assert until is not None
    assert abs(until - engine.clock.now() - timedelta(days=7)) < timedelta(minutes=1)

    await until_left(engine, stopped, 48.1)
    assert await warnings(engine) == []
    await until_left(engine, stopped, 48)
    assert await warnings(engine) == [("48 h", until)]
    await until_left(engine, stopped, 6.1)
    assert len(await warnings(engine)) == 1
    await until_left(engine, stopped, 6)
    await until_left(engine, stopped, 1)

    assert await warnings(engine) == [("48 h", until), ("6 h", until)]
    assert (await engine.get(stopped.id)).phase is Phase.EXITED


async def test_after_an_outage_there_is_one_warning_with_what_is_left(engine: SteppedEngine, stopped: Instance) -> None:
    await until_left(engine, stopped, 3)
    await until_left(engine, stopped, 2)

    assert [left for left, _ in await warnings(engine)] == ["3 h"]


async def test_a_machine_found_stopped_shortly_before_is_announced_after_its_stop(engine: SteppedEngine) -> None:
    """It was stopped in the console while Corral did not run: the stop and the warning are events of their own."""
    instance_id = await engine.request_create()
    ready = await engine.until(instance_id, Phase.READY)
    await engine.sim.ask("/gpu/instance/stop", {"instanceId": ready.provider_id})
    engine.sim.advance(5.5 * DAY)
    engine.clock.advance(5.5 * DAY)
    await engine.steps(3)

    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT type, reason FROM corral_events ORDER BY id DESC LIMIT 2")
    assert [row["type"] for row in rows] == ["instance.data_expiring", "instance.stopped"]
    assert rows[1]["reason"] == "the provider says exited"


async def test_a_start_ends_it_and_the_next_stop_begins_another_period(
    engine: SteppedEngine, stopped: Instance
) -> None:
    await until_left(engine, stopped, 40)
    await engine.ask(OperationKind.START, stopped.id)
    up = await engine.until(stopped.id, Phase.READY)
    assert (up.observation.data_kept_until, up.announced_data) == (None, None)
    await engine.step(2 * DAY)
    assert len(await warnings(engine)) == 1

    await stop(engine, stopped.id)
    await until_left(engine, stopped, 47)

    assert [left for left, _ in await warnings(engine)] == ["40 h", "47 h"]


async def test_another_date_is_announced_again_only_if_it_is_earlier(engine: SteppedEngine, stopped: Instance) -> None:
    await until_left(engine, stopped, 40)
    engine.sim.set(keep_data_days=6)
    await engine.steps(2)
    assert [left for left, _ in await warnings(engine)] == ["40 h", "16 h"]

    engine.sim.set(keep_data_days=9)
    await engine.steps(2)
    await until_left(engine, stopped, 40)
    assert len(await warnings(engine)) == 2
    await until_left(engine, stopped, 5)

    assert [left for left, _ in await warnings(engine)] == ["40 h", "16 h", "5 h"]


async def test_a_purged_machine_that_is_gone_says_until_when_its_data_was_kept(
    engine: SteppedEngine, stopped: Instance
) -> None:
    until = stopped.observation.data_kept_until
    assert until is not None
    await engine.step(8 * DAY)
    failed = await engine.until(stopped.id, Phase.FAILED, seconds=30)

    assert failed.failure is not None
    assert failed.failure.code == "INSTANCE_VANISHED"
    assert f"kept until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC" in failed.failure.message
    assert await warnings(engine) == []


async def test_a_purged_machine_that_stays_exited_stays_so_here(engine: SteppedEngine, stopped: Instance) -> None:
    engine.sim.set(data_purged="exited")
    await engine.step(8 * DAY)
    await engine.steps(3)

    assert (await engine.get(stopped.id)).phase is Phase.EXITED
    assert await warnings(engine) == []
