"""Starting by a name that only the provider knows."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import Answer, error_of

from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting
from corral.store.session.database import Database


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database, lookup=True) as served:
        yield served


async def stopped(served: ServedApiWithProvider, name: str) -> str:
    theirs = await served.foreign(name)
    served.sim.advance(10)
    await served.sim.ask("/gpu/instance/stop", {"instanceId": theirs})
    served.sim.advance(10)
    return theirs


async def start(served: ServedApiWithProvider, name: str) -> Answer:
    return await served.api.service.ask("POST", "/api/instances/start", json={"instanceName": name})


async def test_a_stopped_one_of_exactly_that_name_is_adopted_and_started(served: ServedApiWithProvider) -> None:
    """The user named it; nothing else of the account is touched."""
    theirs = await stopped(served, "lab machine #1")
    await stopped(served, "lab machine #10")
    answer = await start(served, "lab machine #1")
    page = (await served.api.get("/api/instances")).json

    assert answer.status == 202, answer
    assert (answer.json["novitaInstanceId"], answer.json["status"]) == (theirs, "starting")
    assert [found["novitaInstanceId"] for found in page["instances"]] == [theirs]


async def test_our_own_is_found_by_the_name_it_has_at_the_provider(served: ServedApiWithProvider) -> None:
    """A name copied from the provider's console means that instance, not a second record."""
    ours, theirs = await served.managed(phase=Phase.EXITED, sighting=Sighting.EXITED)
    async with served.api.env.database.connection() as connection:
        await connection.execute("UPDATE corral_operations SET status = 'completed'")
    served.sim.advance(10)
    await served.sim.ask("/gpu/instance/stop", {"instanceId": theirs})
    served.sim.advance(10)
    (machine,) = served.sim.instances()
    answer = await start(served, machine.order.name)

    assert (answer.status, answer.json["instanceId"]) == (202, ours)


async def test_of_two_neither_is_guessed(served: ServedApiWithProvider) -> None:
    """Both are named, and neither is adopted."""
    ids = {await stopped(served, "twin"), await stopped(served, "twin")}
    error = error_of(await start(served, "twin"), 409, "NAME_AMBIGUOUS")

    assert set(error["details"]["novitaInstanceIds"]) == ids
    assert (await served.api.get("/api/instances")).json["total"] == 0


async def test_one_that_runs_is_left_alone(served: ServedApiWithProvider) -> None:
    """It is not even adopted."""
    theirs = await served.foreign("busy")
    served.sim.advance(10)
    error = error_of(await start(served, "busy"), 400, "INSTANCE_NOT_STARTABLE")

    assert error["details"] == {"novitaInstanceId": theirs, "status": "running"}
    assert (await served.api.get("/api/instances")).json["total"] == 0


async def test_an_unknown_name_is_not_found(served: ServedApiWithProvider) -> None:
    """Neither here nor there."""
    error_of(await start(served, "missing"), 404, "INSTANCE_NOT_FOUND")


@pytest.mark.parametrize("verb", ["stop", "delete"])
async def test_only_a_start_searches_at_the_provider(served: ServedApiWithProvider, verb: str) -> None:
    """Foreign instances are never stopped or deleted by name."""
    await stopped(served, "theirs")
    answer = await served.api.service.ask("POST", f"/api/instances/{verb}", json={"instanceName": "theirs"})

    error_of(answer, 404, "INSTANCE_NOT_FOUND")


async def test_the_name_lookup_can_be_turned_off(database: Database) -> None:
    """INSTANCE_STARTUP_ENABLE_NAME_LOOKUP=false."""
    async with staged(database) as served:
        await stopped(served, "theirs")

        error_of(await start(served, "theirs"), 404, "INSTANCE_NOT_FOUND")
        assert served.pages() == 0
