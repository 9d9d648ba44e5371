"""The data of a stopped instance: how long it is kept, how that is shown, and what a purge leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from novitasim.testing import Simulated, start_simulator

DAY = 86_400


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator() as simulated:
        yield simulated


async def stopped(sim: Simulated) -> tuple[str, int]:
    """The id of a stopped instance, and when it stopped."""
    instance_id = await sim.create()
    sim.advance(5)
    await sim.ask("/gpu/instance/stop", {"instanceId": instance_id})
    sim.advance(2)
    return instance_id, int(sim.now())


async def got(sim: Simulated, instance_id: str) -> dict[str, Any]:
    status, body = await sim.ask("/gpu/instance", instanceId=instance_id)
    assert status == 200, body
    return dict(body)


async def listed(sim: Simulated) -> list[dict[str, Any]]:
    return list((await sim.ask("/gpu/instances", pageSize=100, pageNum=0))[1]["instances"])


async def test_list_and_get_show_when_the_data_is_purged_while_it_is_stopped(sim: Simulated) -> None:
    sim.set(keep_data_days=3)
    running = await sim.create("running")
    instance_id, since = await stopped(sim)

    shown = await got(sim, instance_id)

    assert (shown["keepDataDay"], shown["releaseDataAt"]) == (3, str(since + 3 * DAY))
    by_name = {each["name"]: each["releaseDataAt"] for each in await listed(sim)}
    assert by_name == {"worker": str(since + 3 * DAY), "running": "0"}
    assert (await got(sim, running))["releaseDataAt"] == "0"
    await sim.ask("/gpu/instance/start", {"instanceId": instance_id})
    assert (await got(sim, instance_id))["releaseDataAt"] == "0"


async def test_the_time_is_written_as_the_settings_say(sim: Simulated) -> None:
    instance_id, since = await stopped(sim)
    until = since + 7 * DAY

    sim.set(release_data_at="milliseconds")
    assert (await got(sim, instance_id))["releaseDataAt"] == str(until * 1000)
    sim.set(release_data_at="iso")
    assert (await got(sim, instance_id))["releaseDataAt"] == datetime.fromtimestamp(until, UTC).strftime("%FT%TZ")
    sim.set(release_data_at="absent")
    assert "releaseDataAt" not in await got(sim, instance_id)
    sim.set(release_data_at="seconds", release_data_up="kept")
    await sim.ask("/gpu/instance/start", {"instanceId": instance_id})
    assert (await got(sim, instance_id))["releaseDataAt"] == str(until)
    sim.set(release_data_up="empty")
    assert (await got(sim, instance_id))["releaseDataAt"] == ""


async def test_a_purged_instance_is_gone(sim: Simulated) -> None:
    instance_id, _ = await stopped(sim)

    sim.advance(7 * DAY - 1)
    assert [each["id"] for each in await listed(sim)] == [instance_id]
    sim.advance(1)

    assert await listed(sim) == []
    sim.advance(60)
    assert (await sim.ask("/gpu/instance", instanceId=instance_id))[0] == 400


async def test_a_purged_instance_may_stay_exited_without_a_start(sim: Simulated) -> None:
    sim.set(data_purged="exited")
    instance_id, since = await stopped(sim)

    sim.advance(7 * DAY)

    assert [(each["status"], each["releaseDataAt"]) for each in await listed(sim)] == [("exited", str(since + 7 * DAY))]
    status, refused = await sim.ask("/gpu/instance/start", {"instanceId": instance_id})
    assert (status, refused["reason"]) == (400, "CONFLICT")
    assert (await sim.ask("/gpu/instance/delete", {"instanceId": instance_id}))[0] == 200
    sim.advance(3)
    assert await listed(sim) == []


async def test_a_start_keeps_the_data_and_the_next_stop_counts_from_then(sim: Simulated) -> None:
    instance_id, _ = await stopped(sim)
    sim.advance(6 * DAY)
    await sim.ask("/gpu/instance/start", {"instanceId": instance_id})
    sim.advance(2 * DAY)
    assert sim.status(instance_id) == "running"

    await sim.ask("/gpu/instance/stop", {"instanceId": instance_id})
    sim.advance(2)

    assert (await got(sim, instance_id))["releaseDataAt"] == str(int(sim.now()) + 7 * DAY)


async def test_another_number_of_days_counts_for_those_that_are_stopped(sim: Simulated) -> None:
    instance_id, since = await stopped(sim)
    sim.advance(2 * DAY)

    sim.set(keep_data_days=3)
    assert (await got(sim, instance_id))["releaseDataAt"] == str(since + 3 * DAY)
    sim.set(keep_data_days=0)
    sim.advance(100 * DAY)
    assert (await got(sim, instance_id))["releaseDataAt"] == "0"


async def test_the_purge_outlives_a_restart(tmp_path: Path) -> None:
    async with start_simulator(state=tmp_path / "world") as sim:
        instance_id, since = await stopped(sim)
    async with start_simulator(state=tmp_path / "world") as sim:
        assert (await got(sim, instance_id))["releaseDataAt"] == str(since + 7 * DAY)
        sim.advance(7 * DAY)
        assert await listed(sim) == []
