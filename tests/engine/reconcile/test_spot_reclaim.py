"""Spot machines that the provider takes back."""

from __future__ import annotations

from datetime import timedelta

from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


async def events(engine: SteppedEngine) -> list[tuple[str, str]]:
    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT type, reason FROM corral_events ORDER BY id")
    return [(row["type"].removeprefix("instance."), row["reason"]) for row in rows]


async def test_a_reclaim_notice_is_recorded_and_announced_once(engine: SteppedEngine, ready: InstanceId) -> None:
    """An hour is enough to save work after the notice; the machine stays ready until then."""
    quiet = await events(engine)
    engine.sim.fault("spot_notice", name="corral-", seconds=600)
    await engine.steps(5)
    noticed = await engine.get(ready)
    reported = (await events(engine))[len(quiet) :]

    assert noticed.phase is Phase.READY
    assert noticed.observation.spot is not None
    assert noticed.observation.spot.status == "notified"
    assert noticed.observation.spot.reclaim_at is not None
    assert noticed.observation.spot.noticed_at is not None
    assert [name for name, _ in reported] == ["reclaim_notice"]
    assert f"{noticed.observation.spot.reclaim_at:%Y-%m-%d %H:%M}" in reported[0][1]


async def test_a_notice_that_changes_is_announced_again(engine: SteppedEngine, ready: InstanceId) -> None:
    """The time that was said before is no longer the time."""
    engine.sim.fault("spot_notice", name="corral-", seconds=600)
    await engine.steps(2)
    first = await engine.get(ready)
    engine.sim.fault("spot_notice", name="corral-", seconds=1200)
    await engine.steps(2)
    second = await engine.get(ready)

    assert first.observation.spot is not None
    assert second.observation.spot is not None
    assert second.observation.spot.noticed_at == first.observation.spot.noticed_at
    assert second.observation.spot.reclaim_at != first.observation.spot.reclaim_at
    assert [name for name, _ in await events(engine)].count("reclaim_notice") == 2


async def test_a_reclaimed_machine_is_exited_and_says_so(engine: SteppedEngine, ready: InstanceId) -> None:
    """Its disk is kept for a while, so it may be started again; that clears the error."""
    engine.sim.fault("spot_notice", name="corral-", seconds=4)
    exited = await engine.until(ready, Phase.EXITED)

    assert exited.failure is not None
    assert exited.failure.code == "SPOT_RECLAIMED"
    assert [name for name, _ in await events(engine)][-1] == "stopped"

    await engine.ask(OperationKind.START, ready)
    again = await engine.until(ready, Phase.READY)
    assert (again.failure, again.observation.spot and again.observation.spot.status) == (None, "running")


async def test_a_machine_reclaimed_while_it_comes_up_fails_its_create_with_that_reason(
    database: Database, target: DatabaseTarget
) -> None:
    """That it stopped before it was ready would not say what to do."""
    async with stepped_engine(database, target, pull_seconds=100) as engine:
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.STARTING)
        engine.sim.fault("spot_reclaim", name="corral-")
        exited = await engine.until(instance_id, Phase.EXITED)

        assert exited.failure is not None
        assert exited.failure.code == "SPOT_RECLAIMED"


async def test_a_machine_that_its_user_stops_is_not_called_reclaimed(engine: SteppedEngine, ready: InstanceId) -> None:
    """A stop that was asked for is no failure, with or without a notice."""
    engine.sim.fault("spot_notice", name="corral-", seconds=600)
    await engine.step()
    await engine.ask(OperationKind.STOP, ready)
    exited = await engine.until(ready, Phase.EXITED)

    assert exited.failure is None


async def test_a_reclaimed_machine_that_is_removed_says_what_became_of_it(
    database: Database, target: DatabaseTarget
) -> None:
    """It is not known whether the provider keeps it; if it does not, the instance has vanished."""
    async with stepped_engine(database, target, spot_end="removed") as engine:
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.READY)
        engine.sim.fault("spot_reclaim", name="corral-")
        failed = await engine.until(instance_id, Phase.FAILED)

        assert failed.failure is not None
        assert failed.failure.code == "INSTANCE_VANISHED"
        assert "spot" in failed.failure.message
        assert failed.phase_since - failed.created_at < timedelta(minutes=5)
