"""The logs of simulated instances: which lines, and when."""

from __future__ import annotations

import re
from typing import Any

import pytest

from novitasim.settings import Settings, changed
from novitasim.workloads import logs
from novitasim.workloads.image_pull import Line, layers_of, pull_lines
from novitasim.world import commands, spot
from novitasim.world.instance import Env, Instance, Mount, Order, Port
from novitasim.world.world import World

T0 = 1_790_000_000.0
IMAGE = "docker.io/acme/app:1.2"
PROGRESS = re.compile(r"[0-9a-f]{12}: Downloading \[=*>? *\] +[0-9.]+[MG]B/[0-9.]+[MG]B")


def created(world: World, **fields: Any) -> Instance:
    """An instance that pulls from T0 + 10 and runs from T0 + 30."""
    order = Order(name="w", product_id="4090.16c62g", gpus=1, rootfs_gb=60, image=IMAGE, cluster_id="us-ca-6", **fields)
    return commands.create(world, order, T0)


def make_world(**quirks: object) -> World:
    return World(settings=changed(Settings(), {"boot_seconds": 10, "pull_seconds": 20} | quirks))


def texts(world: World, instance: Instance, kind: str, at: float, since: float = 0.0) -> list[str]:
    found = logs.lines(instance, kind, world.settings, since=since, until=T0 + at)
    return [line.text for line in found]


def test_a_pull_downloads_every_layer_and_ends_in_time() -> None:
    lines = pull_lines(IMAGE, T0, T0 + 20)
    text = [line.text for line in lines]
    layers = layers_of(IMAGE)

    assert text[0] == "1.2: Pulling from acme/app"
    assert all(T0 <= line.at <= T0 + 20 for line in lines)
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    for layer in layers:
        assert text.index(f"{layer.id}: Download complete") < text.index(f"{layer.id}: Pull complete")
    assert all(PROGRESS.fullmatch(line) for line in text if "Downloading" in line)
    assert [line.partition(":")[0] for line in text[-2:]] == ["Digest", "Status"]
    assert len(layers) >= 4
    assert layers_of(IMAGE) != layers_of("other")


def test_the_system_log_grows_while_the_image_is_pulled() -> None:
    world = make_world()
    instance = created(world)

    assert texts(world, instance, "system", 0) == [f"Instance {instance.id} is scheduled in us-ca-6"]
    half, whole = texts(world, instance, "system", 20), texts(world, instance, "system", 30)
    assert half == whole[: len(half)]
    assert not any(line.startswith("Status:") for line in half)
    assert whole[-1] == "Container started"
    assert texts(world, instance, "system", 30, since=T0 + 20.001) == whole[len(half) :]


def test_a_failed_creation_is_an_error_in_the_system_log() -> None:
    world = make_world()
    instance = commands.create(
        world,
        Order(name="w", product_id="4090.16c62g", gpus=1, rootfs_gb=60, image="broken:1", cluster_id="us-ca-6"),
        T0,
    )

    assert texts(world, instance, "system", 10)[-1] == "Error: failed to pull image broken:1: manifest unknown"


def test_a_pull_that_stops_in_the_middle_stays_unfinished() -> None:
    world = make_world()
    instance = world.put(spot.fail(created(world), T0 + 15, "disk full"), T0 + 15)

    shown = texts(world, instance, "system", 1000)

    assert any("Downloading" in line for line in shown)
    assert not any(line.startswith("Status:") for line in shown)
    assert shown[-1] == "Error: disk full"


def test_the_instance_log_names_variables_and_never_their_values() -> None:
    world = make_world()
    instance = created(
        world,
        envs=(Env(key="TOKEN", value="do-not-tell"),),
        entrypoint="/bin/sh",
        command="echo hello",
        mounts=(Mount(id="ns-datasets", path="/data"),),
        ports=(Port(port=8080, type="http"),),
    )

    assert texts(world, instance, "instance", 29) == []
    shown = texts(world, instance, "instance", 50)
    assert shown == [
        "Starting /bin/sh echo hello",
        "Environment: TOKEN",
        "Mounted ns-datasets at /data",
        "hello",
        "Listening on 8080/http",
        "step 1",
        "step 2",
    ]
    assert "do-not-tell" not in "".join(shown)


def test_a_log_keeps_its_last_lines_however_long_the_instance_runs() -> None:
    world = make_world(log_kept_lines=3, log_interval_seconds=1)
    instance = created(world)

    assert texts(world, instance, "instance", 30 + 10_000_000) == ["step 9999998", "step 9999999", "step 10000000"]


def test_a_stop_ends_the_program_and_a_start_begins_it_again() -> None:
    world = make_world(log_interval_seconds=0, stop_seconds=0, start_seconds=0)
    instance = created(world)
    world.settle(T0 + 30)
    instance = commands.stop(world, instance, T0 + 40)
    instance = commands.start(world, instance, T0 + 50)

    assert texts(world, instance, "instance", 60) == [
        "Starting the image's own command",
        "Received SIGTERM, exiting",
        "Starting the image's own command",
    ]


def test_lines_may_begin_with_their_time() -> None:
    line = Line(T0, "hello")

    assert logs.rendered(line, Settings()) == "hello"
    assert logs.rendered(line, changed(Settings(), {"log_timestamps": True})) == "2026-09-21T14:13:20.000+00:00 hello"


@pytest.mark.parametrize(
    ("env", "setting", "expected"),
    [
        (None, "normal", ("normal", "")),
        (None, "redirect:http://10.0.0.1/", ("redirect", "http://10.0.0.1/")),
        ("stall", "cut", ("stall", "")),
        ("nonsense", "cut", ("cut", "")),
    ],
)
def test_the_environment_counts_more_than_the_setting(env: str | None, setting: str, expected: tuple[str, str]) -> None:
    world = make_world(log_stream=setting)
    instance = created(world, envs=(Env(key="SIM_LOG", value=env),) if env else ())

    assert logs.behaviour_of(instance, world.settings) == expected


def test_the_environment_may_set_the_time_of_the_pull() -> None:
    world = make_world()
    instance = created(world, envs=(Env(key="SIM_PULL_SECONDS", value="300"),))

    assert instance.course[-1].at == T0 + 310
