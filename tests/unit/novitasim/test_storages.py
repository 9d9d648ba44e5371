"""Network storages: each is in one cluster, and only instances there can mount it."""

from __future__ import annotations

from pathlib import Path

import pytest

from novitasim.api.refusal import RefusalError
from novitasim.settings import Settings, changed
from novitasim.world import commands
from novitasim.world.instance import Instance, Mount, Order
from novitasim.world.journal import Journal
from novitasim.world.world import StockSet, World

T0 = 1_790_000_000.0
HERE = Mount(id="ns-datasets", path="/data")  # in us-ca-6
ELSEWHERE = Mount(id="ns-checkpoints", path="/out")  # in eu-ger-1


def make_world(**quirks: object) -> World:
    return World(settings=changed(Settings(), {"boot_seconds": 1, "pull_seconds": 1} | quirks))


def create(world: World, *mounts: Mount, cluster_id: str = "us-ca-6") -> Instance:
    order = Order(
        name="worker",
        product_id="4090.16c62g",
        gpus=1,
        rootfs_gb=60,
        image="fine",
        cluster_id=cluster_id,
        mounts=mounts,
    )
    return commands.create(world, order, T0)


def refusal(world: World, *mounts: Mount, cluster_id: str = "us-ca-6") -> str:
    """The reason of the refusal, after checking that nothing was created."""
    before = dict(world.instances)
    with pytest.raises(RefusalError) as refused:
        create(world, *mounts, cluster_id=cluster_id)
    assert world.instances == before
    return refused.value.reason


def test_each_volume_of_a_new_account_is_in_another_cluster_with_stock() -> None:
    world = make_world()

    clusters = {storage.cluster_id for storage in world.storages.values()}

    assert len(clusters) == len(world.storages) > 1
    assert all(world.catalog.clusters[cluster].network_storage for cluster in clusters)
    assert all(world.left(("4090.16c62g", cluster), T0) > 0 for cluster in clusters)


def test_a_volume_of_the_same_cluster_is_mounted() -> None:
    assert create(make_world(), HERE).order.mounts == (HERE,)


def test_an_unknown_volume_is_refused() -> None:
    assert refusal(make_world(), Mount(id="ns-none", path="/data")) == "NETWORK_STORAGE_NOT_FOUND"


def test_a_volume_of_another_cluster_is_refused_with_the_reason_that_is_set() -> None:
    other = "CUR_CLUSTER_NETWORK_STORAGE_NOT_SUPPORT"

    assert refusal(make_world(), ELSEWHERE) == "NETWORK_STORAGE_UNAVAILABLE"
    assert refusal(make_world(storage_elsewhere_reason=other), HERE, ELSEWHERE) == other


def test_without_a_cluster_the_volume_chooses_it_unless_the_setting_says_otherwise() -> None:
    world = make_world()

    assert create(world, ELSEWHERE, cluster_id="").order.cluster_id == "eu-ger-1"
    assert refusal(world, ELSEWHERE, HERE, cluster_id="") == "NETWORK_STORAGE_UNAVAILABLE"

    blind = make_world(storage_chooses_cluster=False, stock=0)
    blind.set_stock(StockSet("4090.16c62g", "us-ca-6", 1))
    assert refusal(blind, ELSEWHERE, cluster_id="") == "NETWORK_STORAGE_UNAVAILABLE"


def test_a_volume_is_shared_unless_the_setting_refuses_it() -> None:
    world = make_world()
    create(world, HERE)
    create(world, HERE)
    world.change_settings({"storage_sharing": "refused"}, T0)

    assert refusal(world, HERE) == "NETWORK_STORAGE_IN_USE"


def test_a_migration_stays_with_the_volume_is_refused_or_loses_it() -> None:
    def migrated(how: str) -> Instance:
        world = make_world(migrate_with_storage=how)
        instance = create(world, HERE)
        world.settle(T0 + 2)
        return commands.migrate(world, instance, T0 + 2)

    stays, loses = migrated("same_cluster").order, migrated("anywhere").order

    assert (stays.cluster_id, stays.mounts) == ("us-ca-6", (HERE,))
    assert (loses.cluster_id != "us-ca-6", loses.mounts) == (True, ())
    with pytest.raises(RefusalError) as refused:
        migrated("refused")
    assert refused.value.reason == "DEPENDENT_RESOURCE_STATE"


def test_an_upgrade_cannot_mount_a_volume_of_another_cluster() -> None:
    world = make_world()
    instance = create(world, HERE)
    world.settle(T0 + 2)
    changes = Order(
        name="worker",
        product_id="4090.16c62g",
        gpus=1,
        rootfs_gb=60,
        image="fine",
        cluster_id="us-ca-6",
        mounts=(HERE, ELSEWHERE),
    )

    with pytest.raises(RefusalError) as refused:
        commands.upgrade(world, instance, T0 + 2, changes)

    assert refused.value.reason == "NETWORK_STORAGE_UNAVAILABLE"


def test_a_deleted_volume_of_a_new_account_stays_deleted_after_a_restart(tmp_path: Path) -> None:
    world, again = make_world(), make_world()
    world.discard("storage", world.storages, HERE.id)
    written = Journal(tmp_path / "world")
    written.begin(world, T0)
    written.close()

    Journal(tmp_path / "world").load(again)

    assert set(again.storages) == set(make_world().storages) - {HERE.id}
