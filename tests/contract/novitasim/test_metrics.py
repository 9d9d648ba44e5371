"""The provider's metrics: shape, window, lateness, gaps, and a load set by a control call."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from novitasim.testing import Simulated, start_simulator

FLAT = ("cpuUtilization", "memUtilization", "rootDiskUtilization")


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator() as simulated:
        yield simulated


async def metrics(sim: Simulated, instance_id: str, *, minutes: int = 10, **query: object) -> dict[str, Any]:
    asked = {"startTime": int(sim.now()) - minutes * 60, "interval": 60} | query
    status, body = await sim.ask("/instance/metrics", instanceId=instance_id, **asked)
    assert status == 200
    return dict(body)


def values(series: list[dict[str, Any]]) -> list[float]:
    return [sample["value"] for sample in series]


def ages(sim: Simulated, series: list[dict[str, Any]]) -> list[float]:
    return [sim.now() - int(sample["timestamp"]) for sample in series]


async def running(sim: Simulated, name: str = "worker", **fields: object) -> str:
    instance_id = await sim.create(name, **fields)
    sim.advance(5)
    return instance_id


async def test_every_series_is_there_for_each_gpu_and_together(sim: Simulated) -> None:
    instance_id = await running(sim, gpuNum=2)
    sim.set_load(gpuMemory=30)
    sim.advance(600)

    body = await metrics(sim, instance_id)

    assert set(body) == {*FLAT, "gpuUtilization", "gpuMemUtilization"}
    assert all(0 <= value <= 100 for name in FLAT for value in values(body[name]))
    assert [gpu["gpuId"] for gpu in body["gpuUtilization"]["gpuIds"]] == [0, 1]
    assert values(body["gpuMemUtilization"]["avg"]) == [30.0] * 10
    assert isinstance(body["cpuUtilization"][0]["timestamp"], str)


async def test_samples_are_a_minute_late_and_the_default_window_is_a_minute(sim: Simulated) -> None:
    instance_id = await running(sim)
    sim.advance(600)

    assert ages(sim, (await metrics(sim, instance_id))["cpuUtilization"])[-1] == 60
    _, body = await sim.ask("/instance/metrics", instanceId=instance_id)
    assert ages(sim, body["cpuUtilization"]) == [60]
    sim.set(metrics_late_seconds=0, metrics_window_seconds=30)
    _, body = await sim.ask("/instance/metrics", instanceId=instance_id, interval="often", startTime="yesterday")
    assert ages(sim, body["cpuUtilization"]) == [30, 15, 0]


async def test_a_load_counts_from_when_it_was_set(sim: Simulated) -> None:
    sim.set(load=10, metrics_late_seconds=0)
    instance_id, other = await running(sim, "busy-1"), await running(sim, "idle-1")
    sim.advance(115)

    async with ClientSession(sim.root_url) as session:
        asked = {"name": "^busy", "gpu": 90, "cpu": None}
        async with session.post("/_sim/load", json=asked) as response:
            assert await response.json() == {"instances": 1}
    sim.advance(120)

    body = await metrics(sim, instance_id, minutes=3)
    assert values(body["gpuUtilization"]["avg"]) == [10.0, 90.0, 90.0, 90.0]
    assert values(body["cpuUtilization"]) == [10.0]
    assert set(values((await metrics(sim, other))["cpuUtilization"])) == {10.0}


async def test_each_gpu_may_have_a_load_of_its_own(sim: Simulated) -> None:
    instance_id = await running(sim, gpuNum=2)
    sim.simulator.set_load("", {"gpu": (100.0, 0.0)})
    sim.advance(600)

    shown = (await metrics(sim, instance_id))["gpuUtilization"]

    assert set(values(shown["avg"])) == {50.0}
    assert [set(values(gpu["items"])) for gpu in shown["gpuIds"]] == [{100.0}, {0.0}]


async def test_a_stopped_instance_has_no_samples_or_zeros(sim: Simulated) -> None:
    instance_id = await running(sim)
    sim.advance(300)
    await sim.ask("/gpu/instance/stop", {"instanceId": instance_id})
    sim.advance(302)

    assert min(ages(sim, (await metrics(sim, instance_id))["cpuUtilization"])) >= 300
    sim.set(metrics_when_down="zero")
    assert values((await metrics(sim, instance_id))["cpuUtilization"])[-1] == 0.0


async def test_gaps_units_and_empty_series_follow_the_settings(sim: Simulated) -> None:
    instance_id = await running(sim)
    sim.set(load=50, metrics_gaps=30, metrics_unit="fraction")
    sim.advance(3600)

    shown = (await metrics(sim, instance_id, minutes=60))["cpuUtilization"]

    assert 20 < len(shown) < 59
    assert set(values(shown)) == {0.5}
    sim.set(metrics_gaps=100)
    assert (await metrics(sim, instance_id))["cpuUtilization"] == []
    sim.set(metrics_empty="absent")
    assert await metrics(sim, instance_id) == {}


async def test_a_load_outlives_a_restart(tmp_path: Path) -> None:
    async with start_simulator(state=tmp_path / "world") as sim:
        instance_id = await running(sim)
        sim.set_load(cpu=77)
    async with start_simulator(state=tmp_path / "world") as sim:
        sim.advance(300)
        assert set(values((await metrics(sim, instance_id, minutes=3))["cpuUtilization"])) == {77.0}


@pytest.mark.parametrize(
    ("samples", "gpu", "ages_seen"),
    [
        ("normal", [90.0] * 4, [60, 45, 30, 15]),
        ("none", [], []),
        ("zeros", [0.0] * 4, [60, 45, 30, 15]),
        ("stale", [], []),
        ("repeated", [90.0] * 4, [120] * 4),
    ],
)
async def test_samples_may_be_wrong_for_some_machines_from_an_instant_on(
    sim: Simulated, samples: str, gpu: list[float], ages_seen: list[float]
) -> None:
    sim.set(metrics_late_seconds=0)
    wrong, right = await running(sim, "wrong"), await running(sim, "right")
    sim.set_load(gpu=90, cpu=50, memory=50, disk=50, gpuMemory=50)
    sim.advance(115)
    async with ClientSession(sim.root_url) as session:
        async with session.post("/_sim/load", json={"name": "^wrong", "samples": samples}) as response:
            assert await response.json() == {"instances": 1}
        async with session.post("/_sim/load", json={"samples": "rotten"}) as response:
            assert response.status == 400
    sim.advance(120)
    end = {"interval": 15, "startTime": int(sim.now()) - 60, "endTime": int(sim.now()) - 1}

    body = await metrics(sim, wrong, **end)

    assert values(body["gpuUtilization"]["avg"]) == gpu
    assert ages(sim, body["cpuUtilization"]) == ages_seen
    assert samples != "zeros" or not any(values(body[name])[0] for name in FLAT)
    assert values((await metrics(sim, right, **end))["cpuUtilization"]) == [50.0] * 4
    before = {"interval": 15, "startTime": int(sim.now()) - 180, "endTime": int(sim.now()) - 125}
    assert values((await metrics(sim, wrong, **before))["gpuUtilization"]["avg"]) == [90.0] * 4

    sim.set_load("^wrong", samples="normal")
    sim.advance(60)
    latest = {"interval": 15, "startTime": int(sim.now()) - 45}
    assert values((await metrics(sim, wrong, **latest))["cpuUtilization"]) == [50.0] * 4


async def test_samples_may_be_wrong_for_every_machine(sim: Simulated) -> None:
    sim.set(load=40, metrics_late_seconds=0)
    instance_id = await running(sim)
    sim.advance(3600)

    sim.set(metrics_fault="stale", metrics_stale_seconds=300)
    assert min(ages(sim, (await metrics(sim, instance_id))["cpuUtilization"])) == 300
    sim.set(metrics_fault="repeated")
    assert ages(sim, (await metrics(sim, instance_id, minutes=2))["cpuUtilization"]) == [300] * 3
    sim.set(metrics_fault="zeros")
    assert set(values((await metrics(sim, instance_id))["cpuUtilization"])) == {0.0}
    sim.set_load(samples="normal")
    sim.advance(120)
    assert values((await metrics(sim, instance_id, minutes=1))["cpuUtilization"]) == [40.0] * 2
