"""
The provider's JSON of instances, with its numbers as strings. What else it shows is in `wire_catalog.py`.

Shapes only. What is uncertain about a shape is read from the settings; what is odd about it is the provider's own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from novitasim.api.endpoints import TERMINAL, Endpoints
from novitasim.world.catalog import CpuProduct, Product
from novitasim.world.instance import NEVER, Instance, Port
from novitasim.world.kept_data import DAY_SECONDS
from novitasim.world.timeline import MachineShare, Status
from novitasim.world.world import World

Json = dict[str, Any]


def unix(at: float) -> str:
    """An instant as the provider writes it: unix seconds, as text."""
    return str(int(at))


def listed(world: World, instance: Instance, now: float, endpoints: Endpoints) -> Json:
    """An instance as an item of the list."""
    settings = world.settings
    item = _both(world, instance, now)
    item["portMappings"] = port_mappings(world, instance, now, endpoints, with_endpoint=settings.endpoint_in_list)
    item["volumeMounts"] = _mounts(world, instance, size_as_text=True)
    item |= _product(world, instance) | _spot(world, instance, now) | _kept_data(world, instance, now)
    if settings.extras_in_list:
        item |= _times(instance, now)
    return item


def detailed(world: World, instance: Instance, now: float, endpoints: Endpoints) -> Json:
    """An instance as get shows it."""
    settings = world.settings
    item = _both(world, instance, now)
    item["portMappings"] = port_mappings(world, instance, now, endpoints, with_endpoint=True)
    item["volumeMounts"] = _mounts(world, instance, size_as_text=settings.volume_size_in_get == "string")
    if settings.extras_in_get:
        item |= _product(world, instance) | _times(instance, now)
        item["tools"] = [{"name": name, "port": str(p.port), "type": p.type} for name, p in instance.order.tools]
    if settings.spot_in_get:
        item |= _spot(world, instance, now)
    item |= _connections(world, instance, now, endpoints) | _kept_data(world, instance, now)
    node = {"maxRootfsSize": 3000}
    item["node"] = node if settings.node_shape == "object" else [node]
    item["network"] = {"id": instance.order.network_id, "ip": "10.0.0.2" if instance.order.network_id else ""}
    item["jobs"] = [
        {"id": job.id, "type": job.type}
        for job in world.jobs.values()
        if job.instance_id == instance.id and job.state(now) == "running"
    ]
    item["freeStorageSize"] = instance.order.rootfs_gb
    item["keepDataDay"] = settings.keep_data_days
    return item


def port_mappings(
    world: World, instance: Instance, now: float, endpoints: Endpoints, *, with_endpoint: bool
) -> list[Json]:
    """Ports and where they are reached, if they are."""
    up = instance.status(now) is Status.RUNNING or world.settings.endpoints_when_down == "kept"
    mappings: list[Json] = []
    for port in exposed(instance):
        mapping: Json = {"port": port.port}
        if with_endpoint and up:
            mapping["endpoint"] = endpoints.address(instance, port)
        elif with_endpoint and world.settings.endpoints_when_down == "empty":
            mapping["endpoint"] = ""
        mapping["type"] = port.type
        mappings.append(mapping)
    return mappings


def exposed(instance: Instance) -> tuple[Port, ...]:
    """The ordered ports, then those of tools that are not among them."""
    order = instance.order
    numbers = {port.port for port in order.ports}
    return order.ports + tuple(port for _, port in order.tools if port.port not in numbers)


def _both(world: World, instance: Instance, now: float) -> Json:
    order = instance.order
    failure = instance.failed_by(now)
    early = instance.step(now).claim is MachineShare.HOST and world.settings.billing_mode_early == "empty"
    cpus, memory = _size(world, instance)
    return {
        "id": instance.id,
        "name": order.name,
        "clusterId": order.cluster_id,
        "clusterName": world.catalog.clusters[order.cluster_id].name,
        "status": instance.status(now).value,
        "imageUrl": order.image,
        "imageAuthId": order.image_auth_id,
        "command": order.command,
        "entrypoint": order.entrypoint,
        "cpuNum": str(cpus),
        "memory": str(memory),
        "gpuNum": str(order.gpus),
        "statusError": {"state": failure.state if failure else "", "message": failure.message if failure else ""},
        "envs": [{"key": env.key, "value": env.value} for env in order.envs],
        "kind": order.kind,
        "billingMode": "" if early else order.billing_mode,
        "endTime": "-1" if not order.months else unix(instance.created_at + order.months * 2_592_000),
    }


def _size(world: World, instance: Instance) -> tuple[int, int]:
    order = instance.order
    if order.kind == "cpu":
        cpu = world.catalog.cpu_products[order.product_id]
        return cpu.cpus, cpu.memory_gb
    gpu = world.catalog.products[order.product_id]
    return gpu.cpus * order.gpus, gpu.memory_gb * order.gpus


def _product(world: World, instance: Instance) -> Json:
    order = instance.order
    known: dict[str, Product] | dict[str, CpuProduct] = world.catalog.products
    if order.kind == "cpu":
        known = world.catalog.cpu_products
    return {"productId": order.product_id, "productName": known[order.product_id].name, "rootfsSize": order.rootfs_gb}


def _times(instance: Instance, now: float) -> Json:
    return {
        "createdAt": unix(instance.created_at),
        "lastStartedAt": unix(instance.last(Status.RUNNING, now)),
        "lastStoppedAt": unix(instance.last(Status.EXITED, now)),
    }


def _spot(world: World, instance: Instance, now: float) -> Json:
    step = instance.spot_step(now)
    deadline = instance.spot_deadline()
    reclaim = "0"
    if deadline is not None and deadline[0] <= now:
        reclaim = unix(deadline[1] if world.settings.spot_reclaim_time == "deadline" else deadline[0])
    return {"spotStatus": step.status.value if step else "", "spotReclaimTime": reclaim}


def _kept_data(world: World, instance: Instance, now: float) -> Json:
    """releaseDataAt: when the data of a stopped instance is purged."""
    settings, until = world.settings, instance.data_until
    if settings.release_data_at == "absent":
        return {}
    if instance.status(now) is not Status.EXITED:
        stopped_at = instance.last(Status.EXITED, now)
        if settings.release_data_up != "kept" or not stopped_at:
            return {"zero": {"releaseDataAt": "0"}, "empty": {"releaseDataAt": ""}}.get(settings.release_data_up, {})
        until = stopped_at + settings.keep_data_days * DAY_SECONDS
    if until == NEVER:
        return {"releaseDataAt": "0"}
    match settings.release_data_at:
        case "milliseconds":
            return {"releaseDataAt": f"{unix(until)}000"}
        case "iso":
            return {"releaseDataAt": f"{datetime.fromtimestamp(int(until), UTC):%Y-%m-%dT%H:%M:%SZ}"}
        case _:
            return {"releaseDataAt": unix(until)}


def _mounts(world: World, instance: Instance, *, size_as_text: bool) -> list[Json]:
    mounts: list[Json] = []
    for mount in instance.order.mounts:
        kept = world.storages.get(mount.id)
        size = kept.size_gb if kept else 0
        mounts.append(
            {"type": "network", "size": str(size) if size_as_text else size, "id": mount.id, "mountPath": mount.path}
        )
    return mounts


def _connections(world: World, instance: Instance, now: float, endpoints: Endpoints) -> Json:
    up = instance.status(now) is Status.RUNNING
    has_log = _has_log(world, instance, now)
    password = world.password_of(instance)
    host, _, port = (endpoints.ssh_address(instance) if up else "").rpartition(":")
    jupyter = next((port for name, port in instance.order.tools if name.lower() == "jupyter"), None)
    return {
        "connectComponentSSH": {
            "sshCommand": f"ssh -p {port} root@{host}" if port else "",
            "password": password if port else "",
            "isRunning": bool(port),
        },
        "connectComponentWebTerminal": {
            "address": endpoints.address(instance, TERMINAL) if up else "",
            "username": "root" if up else "",
            "password": password if up else "",
            "isRunning": up,
        },
        "connectComponentJupyter": {
            "port": jupyter.port if jupyter else 0,
            "address": endpoints.address(instance, jupyter) if jupyter and up else "",
            "isRunning": up and jupyter is not None,
        },
        "connectComponentLog": {
            "systemLogAddress": endpoints.log_address(instance, "system") if has_log else "",
            "instanceLogAddress": endpoints.log_address(instance, "instance") if has_log else "",
            "isRunning": has_log,
        },
    }


def _has_log(world: World, instance: Instance, now: float) -> bool:
    status = instance.status(now)
    if world.settings.log_offered == "running":
        return status is Status.RUNNING
    return status not in {Status.PENDING, Status.REMOVED}
