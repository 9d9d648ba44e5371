"""The provider's world: courses, stock, lists and refusals, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from novitasim.api.refusal import RefusalError
from novitasim.settings import Settings, changed
from novitasim.world import commands, spot
from novitasim.world.instance import Env, Instance, Order, Port
from novitasim.world.timeline import MachineShare, Status
from novitasim.world.world import StockSet, World

T0 = 1_790_000_000.0
PLACE = ("4090.16c62g", "us-ca-6")
TIMES: dict[str, object] = {
    "boot_seconds": 10,
    "pull_seconds": 20,
    "start_seconds": 10,
    "stop_seconds": 10,
    "remove_seconds": 10,
}


def make_world(**quirks: object) -> World:
    return World(settings=changed(Settings(), TIMES | quirks))


def make_order(**fields: Any) -> Order:
    base = Order(
        name="worker",
        product_id=PLACE[0],
        gpus=1,
        rootfs_gb=60,
        image="docker.io/acme/app:1",
        ports=(Port(port=8080, type="http"),),
        envs=(Env(key="MODE", value="prod"),),
        cluster_id=PLACE[1],
    )
    return replace(base, **fields)


def running(world: World, **fields: Any) -> tuple[Instance, float]:
    """An instance that has just come up, and the instant."""
    instance = commands.create(world, make_order(**fields), T0)
    world.settle(T0 + 30)
    return world.instances[instance.id], T0 + 30


def test_a_new_instance_passes_through_the_documented_statuses() -> None:
    world = make_world()
    instance = commands.create(world, make_order(), T0)

    assert [instance.status(T0 + after) for after in (0, 2.9, 3, 10, 30)] == [
        Status.TO_CREATE,
        Status.TO_CREATE,
        Status.CREATING,
        Status.PULLING,
        Status.RUNNING,
    ]


def test_billing_begins_with_pulling_and_ends_when_stopped() -> None:
    world = make_world()
    instance, now = running(world)
    assert instance.claim(T0 + 9) is MachineShare.HOST
    assert instance.claim(T0 + 10) is MachineShare.BILLED

    stopped = commands.stop(world, instance, now)

    assert stopped.claim(now + 9) is MachineShare.BILLED
    assert stopped.claim(now + 10) is MachineShare.NOTHING


def test_stop_start_restart_are_refused_in_the_wrong_status() -> None:
    world = make_world(invalid_state_reason="REQUEST")
    instance = commands.create(world, make_order(), T0)

    for command in (commands.stop, commands.start, commands.restart):
        with pytest.raises(RefusalError, match="invalid state change") as refused:
            command(world, instance, T0 + 1)
        assert (refused.value.reason, refused.value.status) == ("REQUEST", 400)


def test_a_removed_instance_is_seen_for_a_while_and_then_not_found() -> None:
    world = make_world(removed_seen_seconds=5)
    instance, now = running(world)
    commands.delete(world, instance, now)

    assert world.find(instance.id, now + 14).status(now + 14) is Status.REMOVED
    with pytest.raises(RefusalError, match="not found") as refused:
        world.find(instance.id, now + 15)
    assert (refused.value.reason, refused.value.status) == ("RESOURCE_NOT_FOUND", 400)


def test_deleting_twice_does_not_prolong_the_removal() -> None:
    world = make_world()
    instance, now = running(world)
    first = commands.delete(world, instance, now)

    assert commands.delete(world, first, now + 5).removed_at() == first.removed_at()


def test_stock_is_held_while_running_and_given_back_after_a_stop() -> None:
    world = make_world(stock=1)
    instance, now = running(world)
    assert world.left(PLACE, now) == 0

    commands.stop(world, instance, now)
    world.settle(now + 10)

    assert world.left(PLACE, now + 10) == 1


def test_create_is_refused_when_the_stock_is_out() -> None:
    world = make_world(stock=1)
    commands.create(world, make_order(), T0)

    with pytest.raises(RefusalError) as refused:
        commands.create(world, make_order(), T0)

    assert refused.value.reason == "INSUFFICIENT_RESOURCE"
    assert len(world.instances) == 1


def test_start_is_refused_when_another_customer_has_the_gpu() -> None:
    """A stopped instance has no claim on its machine: the provider's own guide says so."""
    world = make_world(stock=1)
    instance, now = running(world)
    stopped = commands.stop(world, instance, now)
    world.settle(now + 10)
    commands.create(world, make_order(name="other"), now + 10)

    with pytest.raises(RefusalError) as refused:
        commands.start(world, stopped, now + 11)

    assert refused.value.reason == "INSUFFICIENT_RESOURCE"


def test_an_empty_cluster_means_any_that_has_the_gpus() -> None:
    world = make_world(stock=0)
    world.set_stock(StockSet("4090.16c62g", "eu-ger-1", 4))

    instance = commands.create(world, make_order(cluster_id="", gpus=4), T0)

    assert instance.order.cluster_id == "eu-ger-1"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"product_id": "nothing"}, "VALIDATOR_PARAM"),
        ({"cluster_id": "mars-1"}, "VALIDATOR_PARAM"),
        ({"cluster_id": "cn-hongkong-1"}, "INSUFFICIENT_RESOURCE"),
        ({"min_cuda": "13.0"}, "INSUFFICIENT_RESOURCE"),
        ({"product_id": "3090.16c92g", "cluster_id": "", "billing_mode": "spot"}, "UNSUPPORTED_BILLING_MODE"),
        ({"rootfs_gb": 4000}, "VALIDATOR_PARAM"),
        ({"image_auth_id": "unknown"}, "RESOURCE_NOT_FOUND"),
    ],
)
def test_an_order_that_cannot_be_served_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(RefusalError) as refused:
        commands.create(make_world(), make_order(**fields), T0)

    assert refused.value.reason == reason


def test_money_runs_out_with_the_reason_that_is_set() -> None:
    world = make_world(balance_usd=1, no_money_reason="CREATE_INSTANCE_LIMIT")
    commands.create(world, make_order(), T0)
    one_dollar_later = T0 + 30 + 3600 / 0.35

    with pytest.raises(RefusalError) as refused:
        commands.create(world, make_order(), one_dollar_later)

    assert refused.value.reason == "CREATE_INSTANCE_LIMIT"


def test_a_broken_image_fails_with_a_status_error_and_is_never_billed() -> None:
    world = make_world()
    instance = commands.create(world, make_order(image="docker.io/acme/broken:1"), T0)

    assert instance.failure is not None
    assert "manifest unknown" in instance.failure.message
    assert instance.status(T0 + 1000) is Status.CREATING
    assert instance.claim(T0 + 1000) is MachineShare.HOST


def test_a_failure_is_no_start_and_no_stop() -> None:
    world = make_world()
    instance, now = running(world)
    stopped = commands.stop(world, instance, now)
    failed, failed_stopped = (spot.fail(each, now + 60, "host failed") for each in (instance, stopped))

    assert failed.last(Status.RUNNING, now + 60) == instance.last(Status.RUNNING, now)
    assert failed_stopped.last(Status.EXITED, now + 60) == stopped.last(Status.EXITED, now + 60)


def test_a_stop_calls_off_a_failure_that_lay_ahead() -> None:
    world = make_world()
    instance, now = running(world)
    doomed = world.put(spot.fail(instance, now + 60, "host failed"), now)

    stopped = commands.stop(world, doomed, now + 10)

    assert doomed.steady_until(now) == now + 60
    assert stopped.failure is None
    assert stopped.status(now + 60) is Status.EXITED


@pytest.mark.parametrize(
    ("fields", "fails"),
    [({}, True), ({"image_auth_id": "3f0c9d0e"}, False), ({"image_auth": "acme:s3cret-s3cret"}, False)],
)
def test_a_private_image_needs_credentials_of_the_account(fields: dict[str, Any], fails: bool) -> None:  # noqa: FBT001
    instance = commands.create(make_world(), make_order(image="registry.example.com/acme/app:1", **fields), T0)

    assert (instance.failure is not None) is fails


@pytest.mark.parametrize(("end", "expected"), [("exited", Status.EXITED), ("removed", Status.REMOVED)])
def test_a_spot_instance_gets_notice_is_reclaimed_and_ends(end: str, expected: Status) -> None:
    world = make_world(spot_end=end, spot_notice_seconds=100)
    instance, now = running(world, billing_mode="spot")
    reported = world.put(spot.notice(instance, world.settings, now), now)

    steps = [reported.spot_step(now + after) for after in (0, 100, 102)]
    assert [step.status for step in steps if step] == ["notified", "reclaiming", "terminated"]
    assert reported.status(now + 99) is Status.RUNNING
    assert reported.status(now + 102) is expected
    assert reported.claim(now + 102) is MachineShare.NOTHING


def test_a_restart_does_not_win_the_machine_back() -> None:
    world = make_world(spot_notice_seconds=100, restart_seconds=10)
    instance, now = running(world, billing_mode="spot")
    reported = world.put(spot.notice(instance, world.settings, now), now)

    again = commands.restart(world, reported, now + 50)

    assert again.status(now + 60) is Status.RUNNING
    assert again.spot_deadline() == (now, now + 100)
    assert again.status(now + 102) is Status.EXITED


def test_stopping_a_noticed_instance_calls_the_reclaim_off() -> None:
    world = make_world(spot_notice_seconds=100)
    instance, now = running(world, billing_mode="spot")
    reported = world.put(spot.notice(instance, world.settings, now), now)

    stopped = commands.stop(world, reported, now + 50)

    assert [step.status for step in stopped.spot] == ["running"]
    assert stopped.last(Status.EXITED, now + 100) == now + 60


def test_a_foreseen_notice_is_an_instant_at_which_the_instance_changes() -> None:
    world = make_world(spot_life_seconds=50, spot_notice_seconds=100)
    instance, now = running(world, billing_mode="spot")

    assert instance.steady_until(now) == now + 50
    assert instance.steady_until(now + 50) == now + 150


def test_a_reclaim_cannot_undo_a_removal() -> None:
    world = make_world()
    instance, now = running(world, billing_mode="spot")
    leaving = commands.delete(world, instance, now)

    assert spot.reclaim(leaving, world.settings, now + 1) == leaving
    assert spot.notice(leaving, world.settings, now + 1) == leaving


def test_a_second_notice_replaces_the_first() -> None:
    world = make_world(spot_notice_seconds=100)
    instance, now = running(world, billing_mode="spot")
    reported = spot.notice(instance, world.settings, now)

    again = spot.notice(reported, world.settings, now + 10)

    assert again.spot_deadline() == (now + 10, now + 110)
    assert [step.status for step in again.spot] == ["running", "notified", "reclaiming", "terminated"]


def test_a_reclaim_may_come_before_its_announced_time() -> None:
    world = make_world(spot_notice_seconds=100, spot_end="removed")
    instance, now = running(world, billing_mode="spot")
    reported = spot.notice(instance, world.settings, now)

    early = spot.reclaim(reported, world.settings, now + 10)

    assert (reported.removed_at(), early.removed_at()) == (now + 102, now + 12)


def test_get_may_lag_too() -> None:
    world = make_world(get_lag_seconds=5)
    instance = commands.create(world, make_order(), T0)

    with pytest.raises(RefusalError, match="not found"):
        world.find(instance.id, T0 + 4.9)
    assert world.find(instance.id, T0 + 5) == instance


def test_a_start_after_a_reclaim_begins_a_new_tenure_unless_refused() -> None:
    world = make_world()
    instance, now = running(world, billing_mode="spot")
    gone = world.put(spot.reclaim(instance, world.settings, now), now)
    world.settle(now + 5)

    again = commands.start(world, gone, now + 5)

    assert [step.status for step in again.spot] == ["running"]
    world.settings = changed(world.settings, {"start_after_reclaim": "refused"})
    with pytest.raises(RefusalError, match="invalid state change"):
        commands.start(world, gone, now + 5)


def test_a_migrated_instance_keeps_its_id_or_gets_another() -> None:
    kept = make_world()
    instance, now = running(kept)
    moved = commands.migrate(kept, instance, now)
    assert moved.id == instance.id
    assert moved.order.cluster_id != instance.order.cluster_id

    changing = make_world(migrate_keeps_id=False)
    instance, now = running(changing)
    moved = commands.migrate(changing, instance, now)
    changing.settle(now)
    assert moved.id != instance.id
    assert [item.id for item in changing.listed()] == [moved.id]


def test_migrate_without_any_machine_is_refused() -> None:
    world = make_world(stock=1)
    instance, now = running(world)
    for cluster in ("as-sgp-2", "us-ca-7", "eu-ger-1"):
        world.set_stock(StockSet(PLACE[0], cluster, 0))

    with pytest.raises(RefusalError) as refused:
        commands.migrate(world, instance, now)

    assert refused.value.reason == "MIGRATE_INSUFFICIENT_RESOURCE"


def test_a_lagging_list_shows_an_instance_that_get_already_knows_only_later() -> None:
    world = make_world(list_lag_seconds=7)
    instance = commands.create(world, make_order(), T0)

    world.settle(T0 + 6.9)
    assert world.find(instance.id, T0 + 6.9) == instance
    assert world.listed() == []
    world.settle(T0 + 7)
    assert world.listed() == [instance]


def test_removed_instances_leave_the_list_or_stay() -> None:
    world = make_world()
    instance, now = running(world)
    commands.delete(world, instance, now)
    world.settle(now + 10)
    assert world.listed() == []

    world.change_settings({"removed_stay_listed": True}, now + 10)
    assert [item.status(now + 10) for item in world.listed()] == [Status.REMOVED]


def test_a_hidden_instance_is_denied_yet_billed_and_comes_back() -> None:
    world = make_world()
    instance, now = running(world)
    hidden = world.put(spot.vanish(instance, now, seconds=60), now)

    assert world.listed() == []
    with pytest.raises(RefusalError):
        world.find(instance.id, now + 59)
    assert hidden.claim(now + 30) is MachineShare.BILLED
    world.settle(now + 60)
    assert world.listed() == [hidden]
    assert world.find(instance.id, now + 60) == hidden


def test_a_vanished_instance_gives_its_gpu_back() -> None:
    world = make_world(stock=1)
    instance, now = running(world)

    gone = world.put(spot.vanish(instance, now), now)

    assert gone.claim(now) is MachineShare.NOTHING
    assert world.left(PLACE, now) == 1


def test_weather_changes_the_stock_and_repeats_itself() -> None:
    def forecast(seed: int) -> list[int]:
        world = World(seed=seed, settings=changed(Settings(), {"weather": "stormy"}))
        return [world.left(PLACE, T0 + minute * 60) for minute in range(30)]

    assert forecast(1) == forecast(1)
    assert forecast(1) != forecast(2)
    assert min(forecast(1)) == 0
    assert max(forecast(1)) <= 64


def test_the_same_seed_gives_the_same_world() -> None:
    def story(seed: int) -> list[tuple[str, float]]:
        world = World(seed=seed)
        made = [commands.create(world, make_order(cluster_id=""), T0 + at) for at in range(20)]
        return [(item.id + item.order.cluster_id, item.course[-1].at) for item in made]

    assert story(7) == story(7)
    assert story(7) != story(8)


def test_unique_names_are_refused_only_when_the_setting_says_so() -> None:
    world = make_world()
    commands.create(world, make_order(), T0)
    commands.create(world, make_order(), T0)
    world.change_settings({"names_unique": True}, T0)

    with pytest.raises(RefusalError) as refused:
        commands.create(world, make_order(), T0)

    assert refused.value.reason == "CONFLICT"


def test_a_monthly_instance_cannot_be_released_unless_allowed() -> None:
    world = make_world()
    instance, now = running(world, months=1, billing_mode="monthly")

    with pytest.raises(RefusalError) as refused:
        commands.delete(world, instance, now)

    assert refused.value.reason == "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"
    world.change_settings({"monthly_release": "allowed"}, now)
    assert commands.delete(world, instance, now).status(now) is Status.TO_REMOVE
