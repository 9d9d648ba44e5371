"""How busy machines are, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest
from support.clock.waiting import until
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import error_of

from corral.domain.lifecycle.phases import Phase
from corral.domain.machine.utilization import every_seconds
from corral.domain.observation.sighting import Sighting
from corral.store.session.database import Database


@pytest.fixture
async def shop(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        yield served


async def busy(shop: ServedApiWithProvider, name: str = "trainer", **load: float) -> tuple[str, str]:
    """A machine that runs for an hour with this load; both clocks then show the same time."""
    ours, theirs = await shop.managed(name, sighting=Sighting.RUNNING)
    shop.sim.advance(60)
    shop.sim.simulator.set_load("", {series: (value,) for series, value in load.items()})
    shop.sim.advance(3600)
    clock = shop.api.env.clock
    clock.set_by(shop.sim.now() - clock.now().timestamp())
    return ours, theirs


def calls(shop: ServedApiWithProvider) -> int:
    return int(shop.sim.calls()["endpoints"].get("metrics", {}).get("total", 0))


async def test_the_measurements_of_a_machine_are_shown_and_reused(shop: ServedApiWithProvider) -> None:
    """By both ids, for half a minute."""
    ours, theirs = await busy(shop, gpu=87.5, gpuMemory=40, cpu=12, memory=30, disk=5)
    found = (await shop.api.get(f"/api/instances/{ours}/metrics?minutes=30")).json
    same = (await shop.api.get(f"/api/instances/{theirs}/metrics?minutes=30")).json
    first = calls(shop)
    shop.api.env.clock.advance(31)
    await shop.api.get(f"/api/instances/{ours}/metrics?minutes=30")

    assert (found["instanceId"], found["intervalSeconds"]) == (ours, 15)
    begin, end = (datetime.fromisoformat(found[name]) for name in ("from", "to"))
    assert (end - begin).total_seconds() == 1800
    values = {name: {one["value"] for one in found[name]} for name in ("gpu", "gpuMemory", "cpu", "memory", "disk")}
    assert values == {"gpu": {87.5}, "gpuMemory": {40.0}, "cpu": {12.0}, "memory": {30.0}, "disk": {5.0}}
    assert len(found["gpu"]) > 100
    assert all(begin <= datetime.fromisoformat(one["at"]).astimezone(UTC) <= end for one in found["gpu"])
    assert [one["id"] for one in found["gpus"]] == ["0"]
    assert found["gpus"][0]["gpu"] == found["gpu"]
    assert same == found
    assert (first, calls(shop)) == (1, 2)


async def test_a_machine_without_measurements_has_empty_series(shop: ServedApiWithProvider) -> None:
    """Not created yet, never measured, or gone."""
    waiting = (await shop.api.request_create(name="waiting", gpuNum=1)).json["instanceId"]
    shop.sim.set(metrics_empty="absent", metrics_gaps=100)
    ours, theirs = await busy(shop)
    quiet = (await shop.api.get(f"/api/instances/{ours}/metrics")).json
    await shop.api.env.engine.runtime.cloud.delete(theirs)
    shop.sim.advance(600)
    shop.api.env.clock.advance(600)
    gone = (await shop.api.get(f"/api/instances/{ours}/metrics")).json
    uncreated = (await shop.api.get(f"/api/instances/{waiting}/metrics")).json

    for found in (quiet, gone, uncreated):
        assert [found[name] for name in ("gpu", "gpuMemory", "cpu", "memory", "disk", "gpus")] == [[]] * 6
    error_of(await shop.api.get("/api/instances/inst_nope/metrics"), 404, "INSTANCE_NOT_FOUND")
    for minutes in ("0", "1441", "x"):
        error_of(await shop.api.get(f"/api/instances/{ours}/metrics?minutes={minutes}"), 400, "VALIDATION_ERROR")


async def test_a_failing_provider_is_an_error_and_not_kept(shop: ServedApiWithProvider) -> None:
    """The next request asks again."""
    ours, _ = await busy(shop, cpu=10)
    shop.sim.fault("error_500", on="metrics")
    failed = await shop.api.get(f"/api/instances/{ours}/metrics")
    shop.sim.no_more_faults()

    assert failed.status in {502, 504}
    assert (await shop.api.get(f"/api/instances/{ours}/metrics")).json["cpu"]


async def test_the_fleet_is_shown_at_once_and_read_in_the_background(shop: ServedApiWithProvider) -> None:
    """Nulls at first; each machine is read once a minute, and one that stopped is no longer listed."""
    first, _ = await busy(shop, "first", cpu=20)
    second, _ = await busy(shop, "second", gpu=90, cpu=20)
    await shop.api.request_create(name="waiting", gpuNum=1)
    for ours in (first, second):
        await shop.api.change(ours, phase=Phase.READY)
    queries, clock = shop.api.service.engine.utilization, shop.api.env.clock
    before = calls(shop)
    unknown = (await shop.api.get("/api/utilization")).json
    asked_nothing = calls(shop) == before
    await queries.read_due()
    await queries.read_due()
    once = calls(shop) - before
    known = (await shop.api.get("/api/utilization")).json
    shop.sim.advance(61)
    clock.advance(61)
    await queries.read_due()
    twice = calls(shop) - before
    await shop.api.change(second, phase=Phase.EXITED)
    clock.advance(3)
    left = (await shop.api.get("/api/utilization")).json

    assert {(one["id"], one["name"], one["gpu"]) for one in unknown["instances"]} == {
        (first, "first", None),
        (second, "second", None),
    }
    assert (asked_nothing, once, twice, unknown["sampledEvery"]) == (True, 2, 4, 60)
    assert [(one["gpu"], one["cpu"]) for one in known["instances"]] == [(90.0, 20.0), (90.0, 20.0)]
    age = shop.sim.now() - datetime.fromisoformat(known["instances"][0]["sampledAt"]).timestamp()
    assert 0 < age < 300
    assert [one["id"] for one in left["instances"]] == [first]


async def test_a_used_up_share_ends_the_reading_and_a_request_begins_it_again(shop: ServedApiWithProvider) -> None:
    """What was read stays known; the request itself wakes the task."""
    ours, _ = await busy(shop, cpu=20)
    await shop.api.change(ours, phase=Phase.READY)
    queries = shop.api.service.engine.utilization
    shop.sim.fault("throttle", on="metrics")
    await queries.read_due()
    unread = (await shop.api.get("/api/utilization")).json["instances"][0]
    shop.sim.no_more_faults()
    running = asyncio.create_task(queries.run())

    async def is_known() -> bool:
        return bool((await shop.api.get("/api/utilization")).json["instances"][0]["cpu"] == 20.0)

    await until(is_known, what="its measurements")
    running.cancel()
    assert (unread["cpu"], unread["sampledAt"]) == (None, None)


@pytest.mark.parametrize(("machines", "limit", "seconds"), [(0, 300, 60), (60, 300, 60), (600, 300, 600), (10, 1, 600)])
def test_more_machines_are_read_less_often(machines: int, limit: int, seconds: int) -> None:
    """So that all of them fit into the share."""
    assert every_seconds(machines, calls_per_minute=limit, share=0.2) == seconds
