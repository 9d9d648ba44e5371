"""A provider's catalog in memory: it stands for the provider, counts how often it is asked, and can fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from corral.cloud.port import BeforeSend, Credentials, Listing, ProviderCreate
from corral.domain.errors import CloudError, CloudRefusedError
from corral.domain.observation.sighting import ProviderInstance
from corral.domain.placement.catalog import (
    BillingMode,
    Cluster,
    EnvironmentVariable,
    PortKind,
    Product,
    Template,
    TemplateChannel,
    TemplatePort,
    TemplateSummary,
    TemplateTool,
)

CLUSTERS = (
    Cluster(id="as-sgp-2", name="AS-SGP-02 (Singapore)"),
    Cluster(id="cn-hongkong-1", name="CN-HK-01 (Hong Kong)"),
    Cluster(id="as-in-1", name="AS-IN-01 (India)"),
)
RTX_4090 = Product(
    id="4090.16c62g",
    name="RTX 4090 24GB",
    cpu_per_gpu=16,
    memory_gb_per_gpu=62,
    available=True,
    regions=("AS-SGP-02 (Singapore)", "CN-HK-01 (Hong Kong)"),
    spot_micro_usd=180_000,
    on_demand_micro_usd=350_000,
)
RTX_4090_HF = replace(
    RTX_4090, id="4090.hf.24c58g", name="RTX 4090 24GB (High frequency)", regions=(), spot_micro_usd=350_000
)
RTX_3090 = replace(RTX_4090, id="3090.16c92g", name="RTX 3090 24GB", spot_micro_usd=None, on_demand_micro_usd=210_000)
TEMPLATE = Template(
    id="204511",
    name="acme-app",
    image="docker.io/acme/app:1.2",
    image_auth_id="auth-1",
    ports=(TemplatePort(port=8080, kind=PortKind.HTTP),),
    envs=(EnvironmentVariable(key="TOKEN", value="do-not-tell"),),
    tools=(TemplateTool(name="Jupyter", port=8888, kind=PortKind.HTTP),),
    start_command="",
    entrypoint="",
    min_cuda_version="12.4",
)


class FakeCatalog:
    """A Cloud of which only the catalog works."""

    def __init__(self) -> None:
        self.stock: dict[str, list[Product]] = {c.id: [RTX_4090, RTX_4090_HF, RTX_3090] for c in CLUSTERS}
        self.trouble: dict[str | None, CloudError] = {}
        """By cluster id, or None for the calls that name no cluster: what asking there raises."""
        self.calls: Counter[str] = Counter()
        self.open = asyncio.Event()
        """While it is not set, calls wait."""
        self.open.set()

    async def products(self, *, cluster_id: str | None, billing_mode: BillingMode) -> Sequence[Product]:
        await self._answer(f"products:{cluster_id}:{billing_mode}", cluster_id)
        if cluster_id is not None:
            return list(self.stock[cluster_id])
        return list({product.id: product for shelf in self.stock.values() for product in shelf}.values())

    async def clusters(self) -> Sequence[Cluster]:
        await self._answer("clusters", None)
        return CLUSTERS

    async def template(self, template_id: str) -> Template:
        await self._answer("template", None)
        if template_id != TEMPLATE.id:
            code = "INVALID_TEMPLATE" if template_id == "broken" else "TEMPLATE_NOT_FOUND"
            raise CloudRefusedError(f"template {template_id} cannot be had", code=code)
        return TEMPLATE

    async def templates(self, channel: TemplateChannel) -> Sequence[TemplateSummary]:
        await self._answer(f"templates:{channel}", None)
        names = {TemplateChannel.PRIVATE: ("zoo", "Acme"), TemplateChannel.OFFICIAL: ("pytorch",)}[channel]
        return [TemplateSummary(id=f"t-{name}", name=name, image=f"{name}:1", channel=channel) for name in names]

    async def registry_credentials(self, auth_id: str) -> Credentials | None:
        await self._answer("credentials", None)
        return Credentials(username="robot", password="do-not-tell") if auth_id == "auth-1" else None

    async def create(self, order: ProviderCreate, *, before_send: BeforeSend | None = None) -> str:
        raise NotImplementedError

    async def instance(self, provider_id: str) -> ProviderInstance | None:
        raise NotImplementedError

    async def named(self, name: str) -> Listing:
        raise NotImplementedError

    async def named_like(self, start: str) -> Listing:
        raise NotImplementedError

    async def instances(self) -> Listing:
        raise NotImplementedError

    async def start(self, provider_id: str) -> None:
        raise NotImplementedError

    async def stop(self, provider_id: str) -> None:
        raise NotImplementedError

    async def restart(self, provider_id: str) -> None:
        raise NotImplementedError

    async def delete(self, provider_id: str) -> bool:
        raise NotImplementedError

    async def _answer(self, call: str, cluster_id: str | None) -> None:
        self.calls[call] += 1
        await self.open.wait()
        if cluster_id in self.trouble:
            raise self.trouble[cluster_id]
