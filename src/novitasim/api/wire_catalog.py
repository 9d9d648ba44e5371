"""
The provider's JSON of everything but instances, with its odd capitals and its prices as text.

Shapes only, as in `wire.py`.
"""

from __future__ import annotations

from novitasim.api.wire import Json, unix
from novitasim.world.account import Job, Network, RegistryAuth, Storage, Template
from novitasim.world.catalog import Cluster, CpuProduct, Product
from novitasim.world.world import World

_USER = "00000000-0000-4000-8000-000000000000"
# 2 USD per 1000 GB and day, in 1/100000 USD per GB and month: the published price of network volumes.
_STORAGE_PRICE = "6000"
_FEW, _MANY = 8, 48  # GPUs left, for the words of inventoryState


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
        "regions": _regions(world, item),
        "price": str(item.price_e5) if as_text else item.price_e5,
        "monthlyPrice": [{"price": price, "month": months} for months, price in item.monthly_prices],
        "billingMethods": list(item.billing_methods),
        "spotPrice": str(item.spot_e5),
        "inventoryState": _inventory(left) if deployable else "none",
        "canBuy": deployable,
    }


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
    products = world.catalog.products.values()
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
        "clusterName": world.catalog.clusters[item.cluster_id].name,
        "price": _STORAGE_PRICE,
    }


def network(world: World, item: Network) -> Json:
    """A private network and its instances."""
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


def _regions(world: World, item: Product) -> list[str]:
    clusters = [world.catalog.clusters[cluster] for cluster in item.clusters]
    match world.settings.region_names:
        case "place":
            return [cluster.name for cluster in clusters]
        case "short":
            return [cluster.code for cluster in clusters]
        case "id":
            return [cluster.id for cluster in clusters]
        case _:
            return []


def _inventory(left: int) -> str:
    return "low" if left <= _FEW else "normal" if left <= _MANY else "high"
