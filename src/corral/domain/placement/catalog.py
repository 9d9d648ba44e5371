"""
The provider's catalog: products, clusters and templates, in our units; and comparing their names.

Prices are whole micro-USD per GPU-hour; None means that the product is not sold that way. Users write a region as a
code ("AS-SGP-02"), the cluster list has display names ("AS-SGP-02 (Singapore)") and ids ("as-sgp-2"), and products mix
all three. An id cannot be derived from a name, so names are only ever compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MICRO_USD = 1_000_000


class BillingMode(StrEnum):
    """How an instance is paid for."""

    SPOT = "spot"
    ON_DEMAND = "onDemand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One kind of machine; several products may share a name and differ in CPU and memory."""

    id: str
    name: str
    cpu_per_gpu: int
    memory_gb_per_gpu: int
    available: bool
    regions: tuple[str, ...]
    """Display names ("AS-SGP-02 (Singapore)"); empty means every region."""
    spot_micro_usd: int | None
    on_demand_micro_usd: int | None

    def price_micro_usd(self, mode: BillingMode) -> int | None:
        """The price per GPU-hour in *mode*; None when it is not sold that way."""
        return self.spot_micro_usd if mode is BillingMode.SPOT else self.on_demand_micro_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One data centre of the provider. Its id cannot be derived from its name."""

    id: str
    name: str
    """Display name, "CN-HK-01 (Hong Kong)"."""

    @property
    def region(self) -> str:
        """The region code people write, "CN-HK-01"."""
        return region_code(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A network volume of the account; only instances in its cluster can mount it."""

    id: str
    name: str
    size_gb: int
    cluster_id: str
    region: str
    """The region code of the cluster, "CN-HK-01"; its id when the provider does not name it."""


class PortKind(StrEnum):
    """How a port is reached."""

    HTTP = "http"
    HTTPS = "https"
    TCP = "tcp"
    UDP = "udp"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePort:
    """A port the template opens."""

    port: int
    kind: PortKind


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """A variable of the container; the value may be a secret, so it is kept out of `repr`."""

    key: str
    value: str

    def __repr__(self) -> str:
        return f"EnvironmentVariable(key={self.key!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateTool:
    """A helper service the provider runs beside the container."""

    name: str
    port: int
    kind: PortKind


class TemplateChannel(StrEnum):
    """The publisher of a template. Community templates are too many to list; requests name them by id."""

    PRIVATE = "private"
    """The account's own."""
    OFFICIAL = "official"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSummary:
    """A template in a list; whether it can be used is checked when it is chosen."""

    id: str
    name: str
    image: str
    ports: tuple[TemplatePort, ...]
    """Those that can be read."""
    channel: TemplateChannel


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What runs on the machine."""

    id: str
    name: str
    image: str
    image_auth_id: str | None
    """The provider's id of the registry credentials, when the image is private."""
    ports: tuple[TemplatePort, ...]
    envs: tuple[EnvironmentVariable, ...]
    tools: tuple[TemplateTool, ...]
    start_command: str
    entrypoint: str
    min_cuda_version: str


def region_code(display_name: str) -> str:
    """The code in a display name: "CN-HK-01" of "CN-HK-01 (Hong Kong)"."""
    return display_name.split("(", maxsplit=1)[0].strip()


def region_order(*regions: str | Iterable[str]) -> tuple[str, ...]:
    """The regions in the order given, each once; case and surrounding spaces are ignored."""
    first_spelling: dict[str, str] = {}
    for given in regions:
        for spelling in (given,) if isinstance(given, str) else given:
            code = spelling.strip()
            first_spelling.setdefault(code.casefold(), code)
    return tuple(first_spelling.values())


def find_cluster(region: str, clusters: Iterable[Cluster]) -> Cluster | None:
    """The cluster with the code ("CN-HK-01"), display name or id *region*, ignoring case."""
    ordered = sorted(clusters, key=lambda cluster: cluster.id)
    wanted = region.strip().casefold()
    named = [c for c in ordered if wanted in {c.region.casefold(), c.name.casefold()}]
    return next(iter(named), None) or next((c for c in ordered if c.id.casefold() == wanted), None)


def has_name(product: Product, name: str) -> bool:
    """
    Whether *product* has exactly this name, ignoring case and surrounding spaces.

    A substring is not enough: "RTX 4090 24GB" must not select the high-frequency card at twice the price.
    """
    return product.name.strip().casefold() == name.strip().casefold()


def is_sold_in(product: Product, cluster: Cluster) -> bool:
    """Whether *product* lists *cluster*, by display name, code or id; a product without regions is sold everywhere."""
    here = {cluster.id.casefold(), cluster.name.casefold(), cluster.region.casefold()}
    return not product.regions or any(
        {region.strip().casefold(), region.split("(")[0].strip().casefold()} & here for region in product.regions
    )
