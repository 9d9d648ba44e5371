"""Starting by a name that only the provider knows."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.served_api_with_provider import Scene, staged
from support.service import Answer, error_of

from corral.domain.lifecycle.tables import Phase
from corral.domain.observation.sighting import Sighting
from corral.store.session.database import Database


@pytest.fixture
async def scene(database: Database) -> AsyncGenerator[Scene]:
    async with staged(database, lookup=True) as scene:
        yield scene


async def stopped(scene: Scene, name: str) -> str:
    theirs = await scene.foreign(name)
    scene.sim.advance(10)
    await scene.sim.ask("/gpu/instance/stop", {"instanceId": theirs})
    scene.sim.advance(10)
    return theirs


async def start(scene: Scene, name: str) -> Answer:
    return await scene.front.service.ask("POST", "/api/instances/start", json={"instanceName": name})


async def test_a_stopped_one_of_exactly_that_name_is_adopted_and_started(scene: Scene) -> None:
    """The user named it; nothing else of the account is touched."""
    theirs = await stopped(scene, "lab machine #1")
    await stopped(scene, "lab machine #10")
    answer = await start(scene, "lab machine #1")
    page = (await scene.front.get("/api/instances")).json

    assert answer.status == 202, answer
    assert (answer.json["novitaInstanceId"], answer.json["status"]) == (theirs, "starting")
    assert [found["novitaInstanceId"] for found in page["instances"]] == [theirs]


async def test_our_own_is_found_by_the_name_it_has_at_the_provider(scene: Scene) -> None:
    """Whoever copies it from the provider's console gets that one, not a second record."""
    ours, theirs = await scene.managed(phase=Phase.EXITED, sighting=Sighting.EXITED)
    async with scene.front.desk.database.connection() as connection:
        await connection.execute("UPDATE corral_operations SET status = 'completed'")
    scene.sim.advance(10)
    await scene.sim.ask("/gpu/instance/stop", {"instanceId": theirs})
    scene.sim.advance(10)
    (machine,) = scene.sim.instances()
    answer = await start(scene, machine.order.name)

    assert (answer.status, answer.json["instanceId"]) == (202, ours)


async def test_of_two_neither_is_guessed(scene: Scene) -> None:
    """Both are named, and neither is adopted."""
    ids = {await stopped(scene, "twin"), await stopped(scene, "twin")}
    error = error_of(await start(scene, "twin"), 409, "NAME_AMBIGUOUS")

    assert set(error["details"]["novitaInstanceIds"]) == ids
    assert (await scene.front.get("/api/instances")).json["total"] == 0


async def test_one_that_runs_is_left_alone(scene: Scene) -> None:
    """It is not even adopted."""
    theirs = await scene.foreign("busy")
    scene.sim.advance(10)
    error = error_of(await start(scene, "busy"), 400, "INSTANCE_NOT_STARTABLE")

    assert error["details"] == {"novitaInstanceId": theirs, "status": "running"}
    assert (await scene.front.get("/api/instances")).json["total"] == 0


async def test_a_name_that_nobody_has_is_not_found(scene: Scene) -> None:
    """Neither here nor there."""
    error_of(await start(scene, "nobody"), 404, "INSTANCE_NOT_FOUND")


@pytest.mark.parametrize("verb", ["stop", "delete"])
async def test_only_a_start_looks_elsewhere(scene: Scene, verb: str) -> None:
    """What somebody else made is never stopped or deleted by its name."""
    await stopped(scene, "theirs")
    answer = await scene.front.service.ask("POST", f"/api/instances/{verb}", json={"instanceName": "theirs"})

    error_of(answer, 404, "INSTANCE_NOT_FOUND")


async def test_the_look_up_can_be_turned_off(database: Database) -> None:
    """INSTANCE_STARTUP_ENABLE_NAME_LOOKUP=false."""
    async with staged(database) as scene:
        await stopped(scene, "theirs")

        error_of(await start(scene, "theirs"), 404, "INSTANCE_NOT_FOUND")
        assert scene.pages() == 0
