"""
What a customer may do to instances: create, start, stop, restart, delete, migrate, upgrade, edit.

Each function takes the world and the instant, refuses or writes the instance's new course, and returns the instance.
The order of checks is the provider's as far as it is known: form, then money, then stock.
"""

from __future__ import annotations

import dataclasses

from novitasim.api.create_request import invalid
from novitasim.api.refusal import RefusalError
from novitasim.world import images, kept_data, spot, storages, timeline
from novitasim.world.account import Job
from novitasim.world.billing import charges
from novitasim.world.instance import NEVER, Failure, Instance, Order, Port
from novitasim.world.stock import Place
from novitasim.world.timeline import Course, MachineShare, Status
from novitasim.world.world import World

_MIGRATABLE = {
    "any": (Status.RUNNING, Status.EXITED),
    "exited": (Status.EXITED,),
    "running": (Status.RUNNING,),
}
# A monthly rate spread over the hours of its month, so that the ledger needs one kind of rate.
_HOURS_IN_A_MONTH = 720


def create(world: World, order: Order, now: float) -> Instance:
    """A new instance, or a refusal with nothing changed."""
    rate = _rate(world, order)
    _check_account(world, order, now)
    seq = world.seq + 1
    order = dataclasses.replace(order, cluster_id=storages.cluster_of(world, order))
    order = dataclasses.replace(order, cluster_id=_cluster_for(world, order, now, seq))
    world.number()
    chosen, dice = world.settings, world.dice(seq, "birth")
    boot, pull = chosen.boot_seconds.draw(dice), images.pull_seconds(order, chosen.pull_seconds.draw(dice))
    trouble = images.pull_trouble(world, order)
    if trouble is None:
        course = timeline.created(now, boot=boot, pull=pull, pending=chosen.pending_first)
        failure = None
    else:
        course = timeline.failed_create(now, boot=boot, ends=Status(chosen.failed_status))
        failure = Failure(at=now + boot, state="create_failed", message=trouble)
    instance = Instance(
        id=world.id_of("instance", seq, chosen.id_length),
        seq=seq,
        order=order,
        rate_e5=rate,
        created_at=now,
        listed_at=now + chosen.list_lag_seconds,
        found_at=now + chosen.get_lag_seconds,
        course=course,
        failure=failure,
    )
    return world.put(spot.begin(instance, chosen, world.dice(seq, "spot-1")), now)


def start(world: World, instance: Instance, now: float) -> Instance:
    """From exited to running, if a GPU is left."""
    _require(world, instance, now, Status.EXITED)
    refused_spot = spot.ended(instance, now) and world.settings.start_after_reclaim == "refused"
    if refused_spot or kept_data.is_purged(instance, now):
        raise _invalid_state(world)
    _check_money(world, now)
    _check_left(world, _place(instance), instance.order.gpus, now, "INSUFFICIENT_RESOURCE", kind=instance.order.kind)
    starts = instance.starts + 1
    takes = world.settings.start_seconds.draw(world.dice(instance.seq, f"start-{starts}"))
    renewed = dataclasses.replace(_going(instance, now, timeline.start(now, takes)), starts=starts, failure=None)
    return world.put(spot.begin(renewed, world.settings, world.dice(instance.seq, f"spot-{starts}")), now)


def stop(world: World, instance: Instance, now: float) -> Instance:
    """From running to exited."""
    _require(world, instance, now, Status.RUNNING)
    takes = world.settings.stop_seconds.draw(world.dice(instance.seq, f"stop-{instance.starts}"))
    return world.put(_going(instance, now, timeline.stop(now, takes)), now)


def restart(world: World, instance: Instance, now: float) -> Instance:
    """Off and on again."""
    _require(world, instance, now, Status.RUNNING)
    takes = world.settings.restart_seconds.draw(world.dice(instance.seq, f"restart-{len(instance.course)}"))
    renewed = _going(instance, now, timeline.restart(now, takes))
    return world.put(spot.resume(instance, renewed, world.settings, now), now)


def delete(world: World, instance: Instance, now: float) -> Instance:
    """Remove it, whatever it is doing; asking again while it is being removed changes nothing."""
    if instance.order.billing_mode == "monthly" and world.settings.monthly_release == "refused":
        raise RefusalError("PREPAID_INSTANCE_NOT_SUPPORT_RELEASE", "prepaid instance does not support release")
    if instance.removed_at() < NEVER and instance.status(now) in {
        Status.TO_REMOVE,
        Status.REMOVING,
        Status.REMOVED,
    }:
        return instance
    takes = world.settings.remove_seconds.draw(world.dice(instance.seq, "remove"))
    return world.put(_going(instance, now, timeline.remove(now, takes, instance.claim(now))), now)


def migrate(world: World, instance: Instance, now: float) -> Instance:
    """Move it to a machine elsewhere (or on the spot, if only its own cluster has one left)."""
    _require(world, instance, now, *_MIGRATABLE[world.settings.migrate_from])
    order = instance.order
    here = order.cluster_id
    if order.mounts and world.settings.migrate_with_storage == "refused":
        raise RefusalError("DEPENDENT_RESOURCE_STATE", "instance has network storage")
    is_bound = bool(order.mounts) and world.settings.migrate_with_storage == "same_cluster"
    others = [] if is_bound else [cluster for cluster in _open_clusters(world, order, now) if cluster != here]
    if not others and world.left((order.product_id, here), now) < order.gpus:
        raise RefusalError("MIGRATE_INSUFFICIENT_RESOURCE", "insufficient resource to migrate")
    chosen, takes = world.settings, world.settings.migrate_seconds.draw(world.dice(instance.seq, "migrate"))
    mode = order.billing_mode if order.billing_mode != "spot" or chosen.migrate_keeps_spot else "onDemand"
    where, mounts = (others[0], ()) if others else (here, order.mounts)
    moved_order = dataclasses.replace(order, cluster_id=where, mounts=mounts, billing_mode=mode)
    moved = _going(instance, now, timeline.migrate(now, takes))
    moved = dataclasses.replace(
        moved, order=moved_order, starts=instance.starts + 1, rate_e5=_rate(world, moved_order), failure=None, spot=()
    )
    if not chosen.migrate_keeps_id:
        world.put(_going(instance, now, timeline.remove(now, 0.0, MachineShare.NOTHING)), now)
        seq = world.number()
        moved = dataclasses.replace(
            moved,
            id=world.id_of("instance", seq, chosen.id_length),
            seq=seq,
            course=timeline.migrate(now, takes),
            created_at=now,
            listed_at=now + chosen.list_lag_seconds,
            found_at=now + chosen.get_lag_seconds,
        )
    moved = world.put(spot.begin(moved, chosen, world.dice(moved.seq, f"spot-{moved.starts}")), now)
    job_seq = world.number()
    job = Job(
        id=world.id_of("job", job_seq),
        type="instanceMigrate",
        instance_id=moved.id,
        created_at=now,
        done_at=now + takes,
    )
    world.keep("job", world.jobs, job)
    return moved


def upgrade(world: World, instance: Instance, now: float, changes: Order) -> Instance:
    """The same machine with another image; *changes* carries the whole new order."""
    _require(world, instance, now, Status.RUNNING, Status.EXITED)
    mounted = {mount.id for mount in instance.order.mounts}
    storages.check_mounts(world, tuple(mount for mount in changes.mounts if mount.id not in mounted), now)
    storages.check_cluster(world, changes.mounts, changes.cluster_id)
    if instance.status(now) is Status.EXITED:
        _check_left(world, _place(instance), changes.gpus, now, "INSUFFICIENT_RESOURCE", kind=changes.kind)
    dice = world.dice(instance.seq, f"reset-{len(instance.course)}")
    claim = max(
        instance.claim(now), MachineShare.HOST, key=[MachineShare.NOTHING, MachineShare.HOST, MachineShare.BILLED].index
    )
    course = timeline.reset(
        now, takes=world.settings.reset_seconds.draw(dice), pull=world.settings.pull_seconds.draw(dice), claim=claim
    )
    renewed = dataclasses.replace(_going(instance, now, course), order=changes)
    return world.put(spot.resume(instance, renewed, world.settings, now), now)


def edit(
    world: World, instance: Instance, now: float, *, ports: tuple[Port, ...] | None, more_disk_gb: int
) -> Instance:
    """Other ports, or a larger disk."""
    order = instance.order
    changes = dataclasses.replace(
        order, ports=order.ports if ports is None else ports, rootfs_gb=order.rootfs_gb + more_disk_gb
    )
    return world.put(dataclasses.replace(instance, order=changes), now)


def _going(instance: Instance, now: float, future: Course) -> Instance:
    """The instance with its future replaced; a planned failure or spot reclaim is cancelled."""
    return dataclasses.replace(
        instance,
        course=(*timeline.past(instance.course, now), *future),
        spot=spot.called_off(instance.spot, now),
        failure=instance.failed_by(now),
    )


def _require(world: World, instance: Instance, now: float, *allowed: Status) -> None:
    if instance.status(now) not in allowed or instance.failed_by(now):
        raise _invalid_state(world)


def _invalid_state(world: World) -> RefusalError:
    return RefusalError(world.settings.invalid_state_reason, "invalid state change")


def _place(instance: Instance) -> Place:
    return instance.order.product_id, instance.order.cluster_id


def _rate(world: World, order: Order) -> int:
    """What the order costs per hour, all GPUs together."""
    unknown = world.settings.unknown_product_reason
    if order.kind == "cpu":
        cpu = world.catalog.cpu_products.get(order.product_id)
        if cpu is None:
            raise RefusalError(unknown, f"product {order.product_id} not found")
        return cpu.price_e5
    product = world.catalog.products.get(order.product_id)
    if product is None:
        raise RefusalError(unknown, f"product {order.product_id} not found")
    if order.billing_mode not in product.billing_methods:
        raise RefusalError("UNSUPPORTED_BILLING_MODE", f"product does not support {order.billing_mode}")
    if order.rootfs_gb > product.max_rootfs_gb:
        raise invalid(f"rootfs size must not be more than {product.max_rootfs_gb} GB")
    if order.billing_mode == "spot":
        return product.spot_e5 * order.gpus
    if order.billing_mode == "monthly":
        return product.monthly_prices[0][1] // _HOURS_IN_A_MONTH * order.gpus
    return product.price_e5 * order.gpus


def _check_money(world: World, now: float) -> None:
    chosen = world.settings
    if chosen.balance_usd and charges.total(charges.of_account(world, now)) >= chosen.balance_usd:
        raise RefusalError(chosen.no_money_reason, "balance not enough")


def _check_account(world: World, order: Order, now: float) -> None:
    chosen = world.settings
    if chosen.names_unique and any(
        other.order.name == order.name and other.removed_at() > now for other in world.instances.values()
    ):
        raise RefusalError("CONFLICT", f"instance name {order.name} already exists")
    if order.image_auth_id and order.image_auth_id not in world.auths:
        raise world.not_found("image auth")
    storages.check_mounts(world, order.mounts, now)
    if order.network_id and order.network_id not in world.networks:
        raise world.not_found("network", "NETWORK_NOT_FOUND")
    living = sum(other.removed_at() > now for other in world.instances.values()) if chosen.instance_limit else 0
    if chosen.instance_limit and living >= chosen.instance_limit:
        raise RefusalError("CREATE_INSTANCE_LIMIT", "please recharge or delete other instances")
    _check_money(world, now)


def _open_clusters(world: World, order: Order, now: float) -> list[str]:
    product = world.catalog.products[order.product_id]
    return [cluster for cluster in product.clusters if world.left((product.id, cluster), now) >= order.gpus]


def _cluster_for(world: World, order: Order, now: float, seq: int) -> str:
    """Where the order goes: the cluster it names, or any that has the GPUs."""
    if order.cluster_id and order.cluster_id not in world.catalog.clusters:
        raise invalid(f"invalid clusterId: cluster {order.cluster_id} not found")
    if order.cluster_id:
        storages.check_cluster(world, order.mounts, order.cluster_id)
    if order.kind == "cpu":
        return order.cluster_id or next(iter(world.catalog.clusters))
    if order.billing_mode == "spot" and world.settings.spot_create != "accepted":
        raise RefusalError(world.settings.spot_create, "spot is not available")
    if order.min_cuda and _version(order.min_cuda) > _version(world.settings.max_cuda):
        raise RefusalError("INSUFFICIENT_RESOURCE", "insufficient resource")
    if order.cluster_id:
        _check_left(world, (order.product_id, order.cluster_id), order.gpus, now, "INSUFFICIENT_RESOURCE")
        return order.cluster_id
    candidates = _open_clusters(world, order, now)
    if not candidates:
        raise RefusalError("INSUFFICIENT_RESOURCE", "insufficient resource")
    chosen = world.dice(seq, "cluster").choice(candidates)
    storages.check_cluster(world, order.mounts, chosen)
    return chosen


def _check_left(world: World, place: Place, gpus: int, now: float, reason: str, *, kind: str = "gpu") -> None:
    if kind == "gpu" and world.left(place, now) < gpus:
        raise RefusalError(reason, "insufficient resource")


def _version(words: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in words.split("."))
    except ValueError as error:
        raise invalid(f"invalid minCudaVersion: {words!r}") from error
