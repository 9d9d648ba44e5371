"""
The provider's JSON: instances, products and the rest, with its odd capitals and its numbers as strings.

Shapes only. What is uncertain about a shape is read from the settings; what is odd about it is the provider's own.
"""

from __future__ import annotations

from typing import Any

from novitasim.catalogue import Cluster, CpuProduct, Product
from novitasim.endpoints import Endpoints
from novitasim.holdings import Job, Network, RegistryAuth, Storage, Template
from novitasim.instance import Instance, Port
from novitasim.life import Claim, Status
from novitasim.world import World

Json = dict[str, Any]

_USER = "00000000-0000-4000-8000-000000000000"
_KEEP_DATA_DAYS = 7
# 2 USD per 1000 GB and day, in 1/100000 USD per GB and month: the published price of network volumes.
_STORAGE_PRICE = "6000"
_FEW, _MANY = 8, 48  # GPUs left, for the words of inventoryState


def unix(at: float) -> str:
    """An instant as the provider writes it: unix seconds, as text."""
    return str(int(at))


def listed(world: World, instance: Instance, now: float, endpoints: Endpoints) -> Json:
    """An instance as an item of the list."""
    settings = world.settings
    item = _both(world, instance, now)
    item["portMappings"] = port_mappings(world, instance, now, endpoints, with_endpoint=settings.endpoint_in_list)
    item["volumeMounts"] = _mounts(world, instance, size_as_text=True)
    item |= _product(world, instance) | _spot(world, instance, now)
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
    item |= _connections(world, instance, now, endpoints)
    node = {"maxRootfsSize": 3000}
    item["node"] = node if settings.node_shape == "object" else [node]
    item["network"] = {"id": instance.order.network_id, "ip": "10.0.0.2" if instance.order.network_id else ""}
    item["jobs"] = [
        {"id": job.id, "type": job.type}
        for job in world.jobs.values()
        if job.instance_id == instance.id and job.state(now) == "running"
    ]
    item["freeStorageSize"] = instance.order.rootfs_gb
    item["keepDataDay"] = _KEEP_DATA_DAYS
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


def product(world: World, item: Product, now: float, *, cluster_id: str, gpus: int) -> Json:
    """A product; its stock is that of one cluster, or of the best one."""
    clusters = [cluster_id] if cluster_id else list(item.clusters)
    left = max((world.left((item.id, cluster), now) for cluster in clusters), default=0)
    deployable = left >= max(1, gpus)
    as_text = world.settings.price_type == "string"
    return {
        "id": item.id,
        "name": item.name,
        "cpuPerGpu": item.cpus,
        "memoryPerGpu": item.memory_gb,
        "diskPerGpu": item.disk_gb,
        "availableDeploy": deployable,
        "minRootFS": 10,
        "maxRootFS": item.max_rootfs_gb,
        "minLocalStorage": 1,
        "maxLocalStorage": item.disk_gb,
        "regions": [region(world, world.catalogue.clusters[cluster]) for cluster in item.clusters],
        "price": str(item.price_e5) if as_text else item.price_e5,
        "monthlyPrice": [{"price": price, "month": months} for months, price in item.monthly_prices],
        "billingMethods": list(item.billing_methods),
        "spotPrice": str(item.spot_e5),
        "inventoryState": _inventory(left) if deployable else "none",
        "canBuy": deployable,
    }


def region(world: World, item: Cluster) -> str:
    """How a product names a cluster."""
    return {"place": item.name, "short": item.code, "id": item.id}[world.settings.region_names]


def cpu_product(item: CpuProduct) -> Json:
    """A product without GPU."""
    return {
        "id": item.id,
        "name": item.name,
        "cpuNum": item.cpus,
        "memorySize": item.memory_gb,
        "rootfsSize": item.rootfs_gb,
        "localVolumeSize": item.volume_gb,
        "availableDeploy": True,
        "price": item.price_e5,
    }


def cluster(world: World, item: Cluster) -> Json:
    """A cluster and the names of the GPUs it has."""
    products = world.catalogue.products.values()
    return {
        "id": item.id,
        "name": item.name,
        "availableGpuType": sorted({product.name for product in products if item.id in product.clusters}),
        "supportNetworkStorage": item.network_storage,
        "supportInstanceNetwork": item.instance_network,
    }


def template(item: Template) -> Json:
    """A template; its ports are grouped by type."""
    if item.verbatim is not None:
        return item.verbatim
    groups = [(kind, [port.port for port in item.ports if port.type == kind]) for kind in ("http", "tcp")]
    return {
        "Id": item.id,
        "user": _USER,
        "name": item.name,
        "readme": item.readme,
        "type": item.type,
        "channel": item.channel,
        "image": item.image,
        "imageAuth": item.image_auth,
        "startCommand": item.start_command,
        "entrypoint": item.entrypoint,
        "rootfsSize": item.rootfs_gb,
        "ports": [{"type": kind, "ports": ports} for kind, ports in groups if ports],
        "volumes": [],
        "envs": [{"key": env.key, "value": env.value} for env in item.envs],
        "tools": [
            {"name": name, "describe": f"{name} of the template", "port": port.port, "type": port.type}
            for name, port in item.tools
        ],
        "recommendCards": [{"gpuSpecId": "4090.18c.60g", "cardNum": "1"}] if item.channel == "official" else [],
        "minCudaVersion": item.min_cuda,
        "createdAt": str(item.created_at),
    }


def auth(item: RegistryAuth) -> Json:
    """Registry credentials, in clear text as the provider does."""
    return {"id": item.id, "name": item.name, "username": item.username, "password": item.password}


def storage(world: World, item: Storage) -> Json:
    """A network storage."""
    return {
        "storageId": item.id,
        "storageName": item.name,
        "storageSize": item.size_gb,
        "clusterId": item.cluster_id,
        "clusterName": world.catalogue.clusters[item.cluster_id].name,
        "price": _STORAGE_PRICE,
    }


def network(world: World, item: Network) -> Json:
    """A private network and who is in it."""
    members = [instance for instance in world.instances.values() if instance.order.network_id == item.id]
    return {
        "Id": item.id,
        "user": _USER,
        "name": item.name,
        "state": {"state": "ready", "error": ""},
        "segment": item.segment,
        "clusterId": item.cluster_id,
        "Addresses": [{"Id": member.id, "Ip": "10.0.0.2"} for member in members],
        "createTime": unix(item.created_at),
    }


def job(item: Job, now: float) -> Json:
    """A job."""
    return {
        "Id": item.id,
        "user": _USER,
        "type": item.type,
        "envs": [],
        "state": {"state": item.state(now), "error": "", "errorMessage": ""},
        "logAddress": "",
        "createdAt": unix(item.created_at),
        "instanceId": item.instance_id,
    }


def _both(world: World, instance: Instance, now: float) -> Json:
    order = instance.order
    failure = instance.failure if instance.failure and instance.failure.at <= now else None
    early = instance.step(now).claim is Claim.HOST and world.settings.billing_mode_early == "empty"
    cpus, memory = _size(world, instance)
    return {
        "id": instance.id,
        "name": order.name,
        "clusterId": order.cluster_id,
        "clusterName": world.catalogue.clusters[order.cluster_id].name,
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
        cpu = world.catalogue.cpu_products[order.product_id]
        return cpu.cpus, cpu.memory_gb
    gpu = world.catalogue.products[order.product_id]
    return gpu.cpus * order.gpus, gpu.memory_gb * order.gpus


def _product(world: World, instance: Instance) -> Json:
    order = instance.order
    known: dict[str, Product] | dict[str, CpuProduct] = world.catalogue.products
    if order.kind == "cpu":
        known = world.catalogue.cpu_products
    return {"productId": order.product_id, "productName": known[order.product_id].name, "rootfsSize": order.rootfs_gb}


def _times(instance: Instance, now: float) -> Json:
    return {
        "createdAt": unix(instance.created_at),
        "lastStartedAt": unix(instance.last(Status.RUNNING, now)),
        "lastStoppedAt": unix(instance.last(Status.EXITED, now)),
    }


def _spot(world: World, instance: Instance, now: float) -> Json:
    step = instance.spot_step(now)
    told = instance.spot_deadline()
    reclaim = "0"
    if told is not None and told[0] <= now:
        reclaim = unix(told[1] if world.settings.spot_reclaim_time == "deadline" else told[0])
    return {"spotStatus": step.status.value if step else "", "spotReclaimTime": reclaim}


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
    password = world.id_of("password", instance.seq, 12)
    ssh = ""
    if up:
        host, _, port = endpoints.address(instance, Port(port=22, type="tcp")).rpartition(":")
        ssh = f"ssh -p {port} root@{host}"
    terminal = Port(port=7681, type="http")
    jupyter = next((port for name, port in instance.order.tools if name.lower() == "jupyter"), None)
    return {
        "connectComponentSSH": {"sshCommand": ssh, "password": password if up else "", "isRunning": up},
        "connectComponentWebTerminal": {
            "address": endpoints.address(instance, terminal) if up else "",
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
            "systemLogAddress": endpoints.log_address(instance, "system") if up else "",
            "instanceLogAddress": endpoints.log_address(instance, "instance") if up else "",
            "isRunning": up,
        },
    }


def _inventory(left: int) -> str:
    return "low" if left <= _FEW else "normal" if left <= _MANY else "high"
