"""Look at what the provider offers, as selection sees it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter
from msgspec import Meta

from corral.api.http.bodies import filled
from corral.api.middleware.auth import VIEWER
from corral.domain.errors import NotFoundError
from corral.domain.placement.catalog import BillingMode, PortKind, Product, Template, TemplateChannel, TemplatePort
from corral.domain.placement.pricing import micro_usd, usd
from corral.domain.placement.rank import PlacementRequest
from corral.domain.requests.create import LONGEST_TEMPLATE_ID
from corral.engine.queries.catalog import Catalog
from corral.views.plan import OfferDetails, PlanDetails, offer_details, plan_details

NAME_LENGTH = 200
REGION_LENGTH = 100


class ProductDetails(msgspec.Struct, rename="camel"):
    """One product."""

    id: Annotated[str, Meta(description="The provider's id.")]
    name: Annotated[str, Meta(description="Several products may share a name and differ in what surrounds the GPU.")]
    available: Annotated[bool, Meta(description="Whether the provider says it has stock.")]
    regions: Annotated[list[str], Meta(description="Where it is sold, by display name; empty means everywhere.")]
    cpu_per_gpu: Annotated[int, Meta(description="vCPUs that come with each GPU.")]
    memory_per_gpu: Annotated[int, Meta(description="GB of memory that come with each GPU.")]
    price_per_gpu: Annotated[float | None, Meta(description="USD per GPU-hour in the billing mode asked for.")]
    spot_price_per_gpu: Annotated[float | None, Meta(description="USD per GPU-hour; null when it has no spot price.")]
    on_demand_price_per_gpu: Annotated[float | None, Meta(description="USD per GPU-hour; null when not sold so.")]


class ProductList(msgspec.Struct, rename="camel"):
    """Products, cheapest first."""

    products: list[ProductDetails]
    total: int
    region: Annotated[str | None, Meta(description="The region asked about; null means any.")]
    billing_mode: BillingMode


class OptimalProduct(PlanDetails, rename="camel"):
    """The best offer, and all that was considered."""

    product: Annotated[OfferDetails, Meta(description="What would be created: the first candidate.")]


class OpenPort(msgspec.Struct):
    """A port the template opens."""

    port: int
    type: PortKind


class Tool(msgspec.Struct):
    """A helper service beside the container."""

    name: str
    port: int
    type: PortKind


class ListedTemplate(msgspec.Struct):
    """A template by its name."""

    id: Annotated[str, Meta(description="The provider's id, to be sent as `templateId`.")]
    name: str
    image: Annotated[str, Meta(description="Image of the container.")]
    ports: list[OpenPort]
    channel: Annotated[TemplateChannel, Meta(description="`private`: the account's own; `official`: the provider's.")]


class TemplateList(msgspec.Struct):
    """Templates to choose from."""

    templates: list[ListedTemplate]
    total: int


class TemplateDetails(msgspec.Struct, rename="camel"):
    """What runs on the machine."""

    id: Annotated[str, Meta(description="The provider's id.")]
    name: str
    image: Annotated[str, Meta(description="Image of the container.")]
    image_auth_id: Annotated[str | None, Meta(description="Registry login at the provider; null for a public image.")]
    ports: list[OpenPort]
    tools: list[Tool]
    env_names: Annotated[list[str], Meta(description="Names of its variables; values may be secret and are not shown.")]
    start_command: str
    entrypoint: str
    min_cuda_version: Annotated[str, Meta(description="Empty when any version will do.")]


class VolumeDetails(msgspec.Struct, rename="camel"):
    """A network volume of the account."""

    id: Annotated[str, Meta(description="The provider's id, to be sent in `volumes`.")]
    name: str
    size_gb: int
    cluster_id: Annotated[str, Meta(description="The provider's id of its region.")]
    region: Annotated[str, Meta(description="Region code: only instances there can mount it.")]


class VolumeList(msgspec.Struct):
    """The account's network volumes, by name."""

    volumes: list[VolumeDetails]


def handlers(catalog: Catalog) -> list[HTTPRouteHandler]:
    """The routes of `/api/products`, `/api/templates` and `/api/volumes`."""

    @get("/api/products", summary="List products", tags=["catalog"], opt=VIEWER)
    async def list_products(
        name: Annotated[
            str | None, QueryParameter(max_length=NAME_LENGTH, description="Part of the name, in any capitals.")
        ] = None,
        region: Annotated[
            str | None,
            QueryParameter(max_length=REGION_LENGTH, description="Region code; stock is then of that region."),
        ] = None,
        billing_mode: Annotated[
            BillingMode, QueryParameter(name="billingMode", description="Which products and prices are listed.")
        ] = BillingMode.SPOT,
    ) -> ProductList:
        """Cached for up to `CACHE_TIMEOUT` seconds."""
        found = await catalog.products(region=region, billing_mode=billing_mode)
        wanted = (name or "").strip().casefold()
        listed = [_product(p, billing_mode) for p in found if wanted in p.name.casefold()]
        listed.sort(key=lambda p: (p.price_per_gpu is None, p.price_per_gpu or 0, p.name, p.id))
        return ProductList(products=listed, total=len(listed), region=region, billing_mode=billing_mode)

    @get("/api/products/optimal", summary="Get the best product for a request", tags=["catalog"], opt=VIEWER)
    async def get_optimal_product(  # noqa: PLR0917  # Litestar calls it by name
        name: Annotated[
            str, QueryParameter(min_length=1, max_length=NAME_LENGTH, description="The whole name, in any capitals.")
        ],
        region: Annotated[
            str | None, QueryParameter(max_length=REGION_LENGTH, description="Tried first, then the priority list.")
        ] = None,
        billing_mode: Annotated[
            BillingMode, QueryParameter(name="billingMode", description="How it is to be paid for.")
        ] = BillingMode.SPOT,
        spot_fallback: Annotated[  # noqa: FBT002  # as above
            bool, QueryParameter(name="spotFallback", description="Whether on-demand will do when no region has spot.")
        ] = False,
        max_price: Annotated[
            float | None, QueryParameter(name="maxPrice", gt=0, le=10_000, description="Most USD per GPU-hour.")
        ] = None,
        gpu_num: Annotated[int, QueryParameter(name="gpuNum", ge=1, le=8, description="How many GPUs.")] = 1,
    ) -> OptimalProduct:
        """404 with every rejected offer when none is available."""
        wanted = PlacementRequest(
            product_name=name,
            regions=catalog.region_order(region),
            billing_mode=billing_mode,
            spot_fallback=spot_fallback,
            max_micro_usd_per_gpu=None if max_price is None else micro_usd(Decimal(str(max_price))),
            gpu_num=gpu_num,
        )
        ranking = await catalog.candidates(wanted)
        plan = plan_details(ranking)
        best = offer_details(ranking.candidates[0])
        return OptimalProduct(product=best, candidates=plan.candidates, rejected=plan.rejected)

    @get("/api/templates", summary="List templates", tags=["catalog"], opt=VIEWER)
    async def list_templates() -> TemplateList:
        """
        The account's own first, then the provider's official ones; cached for up to ten minutes.

        Those of the provider's community are not listed, but can be used by their id.
        """
        found = await catalog.templates()
        listed = [filled(ListedTemplate, template, ports=_ports(template.ports)) for template in found]
        return TemplateList(templates=listed, total=len(listed))

    @get("/api/templates/{template_id:str}", summary="Get a template", tags=["catalog"], opt=VIEWER)
    async def get_template(template_id: FromPath[str]) -> TemplateDetails:
        """Cached for up to ten minutes."""
        if len(template_id) > LONGEST_TEMPLATE_ID:
            raise NotFoundError(f"there is no template {template_id[:40]!r}", code="TEMPLATE_NOT_FOUND")
        return _template(await catalog.template(template_id.strip()))

    @get("/api/volumes", summary="List network volumes", tags=["catalog"], opt=VIEWER)
    async def list_volumes() -> VolumeList:
        """Those of the account, each in one region; cached for up to `CACHE_TIMEOUT` seconds."""
        return VolumeList(volumes=[filled(VolumeDetails, volume) for volume in await catalog.volumes.all()])

    return [list_products, get_optimal_product, list_templates, get_template, list_volumes]


def _product(product: Product, mode: BillingMode) -> ProductDetails:
    return filled(
        ProductDetails,
        product,
        regions=list(product.regions),
        memory_per_gpu=product.memory_gb_per_gpu,
        price_per_gpu=_price(product, mode),
        spot_price_per_gpu=_price(product, BillingMode.SPOT),
        on_demand_price_per_gpu=_price(product, BillingMode.ON_DEMAND),
    )


def _price(product: Product, mode: BillingMode) -> float | None:
    """The price in *mode*; zero is the provider's way to say that there is none."""
    price = product.price_micro_usd(mode)
    return usd(price) if price else None


def _ports(ports: Iterable[TemplatePort]) -> list[OpenPort]:
    return [OpenPort(port=port.port, type=port.kind) for port in ports]


def _template(template: Template) -> TemplateDetails:
    return filled(
        TemplateDetails,
        template,
        ports=_ports(template.ports),
        tools=[Tool(name=tool.name, port=tool.port, type=tool.kind) for tool in template.tools],
        env_names=[env.key for env in template.envs],
    )
