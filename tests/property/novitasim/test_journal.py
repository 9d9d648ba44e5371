"""What is kept stays true: printed instances, and worlds on disk."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from novitasim.api import wire
from novitasim.api.call import RenderCache
from novitasim.api.endpoints import RealisticEndpoints
from novitasim.api.refusal import RefusalError
from novitasim.settings import Settings, changed
from novitasim.world import commands, spot
from novitasim.world.instance import Order
from novitasim.world.journal import Journal
from novitasim.world.world import StockSet, World

T0 = 1_790_000_000.0
QUIRKS: dict[str, object] = {
    "stock": 3,
    "spot_notice_seconds": 10,
    "list_lag_seconds": 3,
    "get_lag_seconds": 1,
    "spot_life_seconds": "1-8",
}
ACTS = ("create", "stop", "start", "restart", "delete", "migrate", "upgrade", "notice", "reclaim", "fail", "hide")

stories = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 5), st.floats(0, 12)), max_size=25)


def do(world: World, act: str, which: int, now: float) -> None:
    if act == "create" or not world.instances:
        mode = "spot" if which % 2 else "onDemand"
        order = Order(name=f"n{which}", product_id="4090.16c62g", gpus=1, rootfs_gb=10, image="fine", billing_mode=mode)
        commands.create(world, order, now)
        return
    known = list(world.instances.values())
    instance = world.find(known[which % len(known)].id, now)
    match act:
        case "upgrade":
            commands.upgrade(world, instance, now, instance.order)
        case "notice" if instance.spot:
            world.put(spot.notice(instance, world.settings, now), now)
        case "reclaim" if instance.spot:
            world.put(spot.reclaim(instance, world.settings, now), now)
        case "fail":
            world.put(spot.fail(instance, now + which, "broke"), now)
        case "hide":
            world.put(spot.vanish(instance, now, seconds=which), now)
        case "stop" | "start" | "restart" | "delete" | "migrate":
            getattr(commands, act)(world, instance, now)
        case _:
            pass


@given(stories)
@settings(deadline=None)
def test_a_kept_print_is_what_would_be_printed_now(story: list[tuple[str, int, float]]) -> None:
    world, press, endpoints = World(settings=changed(Settings(), QUIRKS)), RenderCache(), RealisticEndpoints()
    now = T0
    for act, which, later in story:
        now += later
        world.settle(now)
        with contextlib.suppress(RefusalError):
            do(world, act, which, now)
        for instance in world.instances.values():
            listed = msgspec.json.decode(press.listed(world, instance, now, endpoints))
            detailed = msgspec.json.decode(press.detailed(world, instance, now, endpoints))
            assert listed == wire.listed(world, instance, now, endpoints)
            assert detailed == wire.detailed(world, instance, now, endpoints)


@given(stories, st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_a_world_read_back_is_the_same_world(story: list[tuple[str, int, float]], gpus: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, now = Path(folder) / "world.jsonl", T0
        world, journal = World(settings=changed(Settings(), QUIRKS)), Journal(Path(folder) / "world.jsonl")
        journal.begin(world, now)
        world.set_stock(StockSet("4090.16c62g", "us-ca-6", gpus))
        world.discard("template", world.templates, "107672")
        for act, which, later in story:
            now += later
            world.settle(now)
            with contextlib.suppress(RefusalError):
                do(world, act, which, now)
            journal.write(world, now)
        journal.write(world, now)
        journal.close()
        again = World()
        known_until = Journal(path).load(again)
        world.settle(now)
        again.settle(now)

    assert known_until <= now
    assert again.settings == world.settings
    assert (again.instances, again.templates, again.jobs) == (world.instances, world.templates, world.jobs)
    assert again.listed() == world.listed()
    places = [(p.id, c) for p in world.catalog.products.values() for c in p.clusters]
    assert [again.left(place, now) for place in places] == [world.left(place, now) for place in places]
    assert again.seq == world.seq
