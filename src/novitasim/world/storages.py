"""
What network storages allow: a storage exists in one cluster, and only instances there can mount it.

The provider documents the reasons of its refusals and not which of them belongs to which case, so that is a setting.
"""

from __future__ import annotations

from novitasim.api.refusal import RefusalError
from novitasim.world.instance import Mount, Order
from novitasim.world.world import World


def check_mounts(world: World, mounts: tuple[Mount, ...], now: float) -> None:
    """Raise RefusalError if a storage does not exist, or is in use where storages cannot be shared."""
    for mount in mounts:
        if mount.id not in world.storages:
            raise world.not_found("network storage", "NETWORK_STORAGE_NOT_FOUND")
        if world.settings.storage_sharing == "refused" and in_use(world, mount.id, now):
            raise RefusalError("NETWORK_STORAGE_IN_USE", "network storage is in use")


def check_cluster(world: World, mounts: tuple[Mount, ...], cluster_id: str) -> None:
    """Raise RefusalError if a storage is in another cluster."""
    if any(world.storages[mount.id].cluster_id != cluster_id for mount in mounts):
        reason = world.settings.storage_elsewhere_reason
        raise RefusalError(reason, f"network storage is not in cluster {cluster_id}")


def cluster_of(world: World, order: Order) -> str:
    """The cluster that an order asks for, or that its first storage chooses; empty if any will do."""
    if order.cluster_id or not order.mounts or not world.settings.storage_chooses_cluster:
        return order.cluster_id
    return world.storages[order.mounts[0].id].cluster_id


def in_use(world: World, storage_id: str, now: float) -> bool:
    """Whether an instance that is not removed mounts the storage."""
    living = (instance for instance in world.instances.values() if instance.removed_at() > now)
    return any(mount.id == storage_id for instance in living for mount in instance.order.mounts)
