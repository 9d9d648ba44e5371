"""
A provider with a small catalog: the simulator, called without sockets through the product's own client.

A test counts the calls, holds them back, and lets those about one cluster fail.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from corral.base.clock import Clock
from corral.cloud.exchange import Answer, Call
from corral.cloud.novita.client import NovitaCloud
from corral.domain.errors import CloudError
from novitasim.server.serving import Options, build
from novitasim.world.account import RegistryAuth, Storage, Template
from novitasim.world.catalog import Catalog, Product, seeded
from novitasim.world.instance import Env, Port
from support.histories.direct import DirectExchange
from support.histories.script import Mishap, Script

CLUSTERS = ("as-sgp-2", "cn-hongkong-1", "as-in-1")
RTX_4090 = Product(
    id="4090.16c62g",
    name="RTX 4090 24GB",
    cpus=16,
    memory_gb=62,
    price_e5=35_000,
    spot_e5=18_000,
    clusters=("as-sgp-2", "cn-hongkong-1"),
)
RTX_4090_HF = replace(
    RTX_4090, id="4090.hf.24c58g", name="RTX 4090 24GB (High frequency)", spot_e5=35_000, clusters=("as-in-1",)
)
RTX_3090 = replace(RTX_4090, id="3090.16c92g", name="RTX 3090 24GB", price_e5=21_000, spot_e5=0)
TEMPLATE = Template(
    id="204511",
    name="acme-app",
    image="docker.io/acme/app:1.2",
    image_auth="auth-1",
    ports=(Port(port=8080, type="http"),),
    envs=(Env(key="TOKEN", value="do-not-tell"),),
    tools=(("Jupyter", Port(port=8888, type="http")),),
    min_cuda="12.4",
)
PYTORCH = Template(id="107672", name="pytorch", image="pytorch:1", channel="official")
ZOO = Template(id="204512", name="Zoo", image="zoo:1")
BROKEN = Template(id="broken", name="broken", image="", channel="community", verbatim={"Id": "broken"})


STORAGES = (
    Storage(id="ns-sgp", name="datasets", size_gb=500, cluster_id="as-sgp-2"),
    Storage(id="ns-hk", name="Checkpoints", size_gb=200, cluster_id="cn-hongkong-1"),
    Storage(id="ns-in", name="models", size_gb=10, cluster_id="as-in-1"),
)


class _CountingExchange(DirectExchange):
    def __init__(self, provider: CatalogProvider, clock: Clock) -> None:
        super().__init__(provider.simulator, clock, Script(meanwhile=_nothing), _nothing)
        self._provider = provider

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        await self._provider.on_call(call)
        return await super().ask(call, answer)


class CatalogProvider(NovitaCloud):
    """A provider account with three clusters, three products, four templates and three volumes."""

    def __init__(self, clock: Clock) -> None:
        self.simulator = build(Options(clock="stepped"))
        world, all_clusters = self.simulator.world, seeded().clusters
        world.catalog = Catalog(products={}, cpu_products={}, clusters={each: all_clusters[each] for each in CLUSTERS})
        self.sell(RTX_4090, RTX_4090_HF, RTX_3090)
        world.templates = {each.id: each for each in (ZOO, TEMPLATE, PYTORCH, BROKEN)}
        world.storages = {each.id: each for each in STORAGES}
        auth = RegistryAuth(id="auth-1", name="docker.io", username="robot", password="do-not-tell")
        world.auths = {auth.id: auth}
        self.calls: Counter[str] = Counter()
        self.trouble: dict[str | None, CloudError] = {}
        """By cluster id, or None for the calls that name no cluster: what such a call raises."""
        self.open = asyncio.Event()
        """While it is not set, calls wait."""
        self.open.set()
        super().__init__(_CountingExchange(self, clock))

    def sell(self, *products: Product) -> None:
        """Sell these and nothing else."""
        self.simulator.world.catalog.products.clear()
        self.simulator.world.catalog.products.update({each.id: each for each in products})

    def set_stock(self, gpus: int | None, product: Product = RTX_4090, *clusters: str) -> None:
        """Have so many GPUs of *product* left, in *clusters* or in all of its own."""
        for cluster in clusters or product.clusters:
            self.simulator.set_stock(product.id, cluster, gpus)

    async def on_call(self, call: Call) -> None:
        """Count the call, hold it back, and raise what was set for its cluster."""
        cluster = call.query.get("clusterId")
        query = call.query
        named = {
            "products": f":{cluster}:{query.get('billingMethod')}",
            "templates": f":{query.get('channel')}",
        }
        self.calls[call.endpoint + named.get(call.endpoint, "")] += 1
        await self.open.wait()
        if cluster in self.trouble:
            raise self.trouble[cluster]


async def _nothing(_mishap: Mishap) -> None:
    """No mishap is scripted."""
