"""Stopping every instance, and reading the provider's list now, as callers see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import error_of

from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.store.session.database import Database


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        yield served


async def test_stop_all_stops_what_has_a_record_and_nothing_else(served: ServedApiWithProvider) -> None:
    """
    Also an adopted one. What is stopped or going is left out; what is being created is refused, because it will run.

    A machine without a record has no goal that a stop could be recorded for, and the provider is not called.
    """
    api = served.api
    ours, _ = await served.managed("ours", phase=Phase.READY, sighting=Sighting.RUNNING)
    _stopped, _ = await served.managed("stopped", phase=Phase.EXITED, goal=Goal.STOPPED, sighting=Sighting.EXITED)
    _going, _ = await served.managed("going", phase=Phase.DELETING, goal=Goal.GONE)
    _lost, _ = await served.managed("lost", phase=Phase.FAILED, sighting=Sighting.ABSENT)
    failed, _ = await served.managed("failed", phase=Phase.FAILED, sighting=Sighting.RUNNING)
    new = (await api.request_create(name="new")).json["instanceId"]
    foreign, adopted_id = await served.foreign("foreign"), await served.foreign("adopted")
    served.sim.advance(10)
    adopted = (await api.service.ask("POST", f"/api/instances/{adopted_id}/adopt")).json["id"]
    calls = served.sim.calls()

    answer = await api.service.ask("POST", "/api/instances/stop-all")

    assert answer.status == 202
    stopped = {one["instanceId"]: (one["name"], one["status"]) for one in answer.json["stopped"]}
    assert stopped == {ours: ("ours", "stopping"), failed: ("failed", "stopping"), adopted: ("adopted", "stopping")}
    (refused,) = answer.json["refused"]
    assert (refused["instanceId"], refused["name"], refused["code"]) == (new, "new", "INSTANCE_NOT_STOPPABLE")
    assert served.sim.calls() == calls
    assert (await served.sim.ask("/gpu/instance", instanceId=foreign))[1]["status"] == "running"
    for one in answer.json["stopped"]:
        operation = (await api.get(f"/api/operations/{one['operationId']}")).json
        assert (operation["kind"], operation["instanceId"]) == ("stop", one["instanceId"])
    lines = [line for line in (await api.get("/api/audit")).json["entries"] if line["path"].endswith("stop-all")]
    assert {line["instanceId"] for line in lines} == {ours, failed, adopted, None}
    assert {(line["status"], line["who"]) for line in lines} == {(202, "local")}


async def test_stop_all_again_changes_nothing(served: ServedApiWithProvider) -> None:
    """With the same idempotency key it gets the first response, without one an empty one."""
    ours, _ = await served.managed("ours", phase=Phase.READY, sighting=Sighting.RUNNING)
    key = {"Idempotency-Key": "evening"}
    first = await served.api.service.ask("POST", "/api/instances/stop-all", headers=key)
    replayed = await served.api.service.ask("POST", "/api/instances/stop-all", headers=key)
    again = await served.api.service.ask("POST", "/api/instances/stop-all")
    recorded = (await served.api.get(f"/api/instances/{ours}/operations")).json["operations"]

    assert [one["instanceId"] for one in first.json["stopped"]] == [ours]
    assert (replayed.json, replayed.headers["idempotent-replayed"]) == (first.json, "true")
    assert (again.status, again.json) == (202, {"stopped": [], "refused": []})
    assert sorted(one["kind"] for one in recorded) == ["create", "stop"]


async def test_stop_all_of_more_than_are_stopped_at_once(served: ServedApiWithProvider) -> None:
    """None is left out."""
    made = {(await served.managed(f"one-{n}", phase=Phase.READY, sighting=Sighting.RUNNING))[0] for n in range(6)}
    answer = await served.api.service.ask("POST", "/api/instances/stop-all")

    assert {one["instanceId"] for one in answer.json["stopped"]} == made


async def test_sync_records_what_the_provider_lists_now(served: ServedApiWithProvider) -> None:
    """Each request is one listing; a machine without a record is listed and not recorded."""
    ours, theirs = await served.managed("ours")
    await served.foreign()
    served.sim.advance(10)
    answer = await served.api.service.ask("POST", "/api/instances/sync")

    assert (answer.status, answer.json) == (
        200,
        {"listed": 2, "complete": True, "listedAt": "2030-01-01T00:00:00.000Z"},
    )
    assert (await served.api.change(ours)).observation.sighting is Sighting.RUNNING
    assert [one["novitaInstanceId"] for one in (await served.api.get("/api/instances")).json["instances"]] == [theirs]
    assert (await served.api.service.ask("POST", "/api/instances/sync")).status == 200
    assert served.pages() == 2


async def test_sync_without_a_provider_is_its_error(served: ServedApiWithProvider) -> None:
    """Nothing is recorded."""
    ours, _ = await served.managed("ours")
    served.sim.fault("error_500", on="list", count=50)
    error_of(await served.api.service.ask("POST", "/api/instances/sync"), 502, "NOVITA_API_ERROR")

    assert (await served.api.change(ours)).observation.sighting is Sighting.BOOTING
