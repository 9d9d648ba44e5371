"""
What the provider sells, and where: products, CPU products and clusters, seeded from the published catalog.

A product's regions are display names on the wire and cluster ids here, because the one cannot be derived from the
other (CN-HK-01 is cn-hongkong-1). Cluster ids that no public source shows are made up after the pattern of the others.
Prices are in 1/100000 USD per GPU-hour, as the provider writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

HOURS_IN_A_MONTH = 720
# The price list's discount of a one-month purchase (in percent of the hourly price) falls to this at twelve months.
_MONTHLY_PERCENT = ((1, 90), (3, 87), (6, 82), (12, 75))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A data centre."""

    id: str
    code: str
    place: str
    network_storage: bool = False
    instance_network: bool = False

    @property
    def name(self) -> str:
        """The display name, such as `US-CA-06 (California)`."""
        return f"{self.code} ({self.place})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A kind of GPU machine; several products may share one display name."""

    id: str
    name: str
    cpus: int
    memory_gb: int
    price_e5: int
    spot_e5: int = 0
    monthly: bool = True
    clusters: tuple[str, ...]
    disk_gb: int = 2600
    max_rootfs_gb: int = 3000

    @property
    def billing_methods(self) -> tuple[str, ...]:
        """How it may be paid."""
        spot = ("spot",) if self.spot_e5 else ()
        return ("onDemand", *spot, *(("monthly",) if self.monthly else ()))

    @property
    def monthly_prices(self) -> tuple[tuple[int, int], ...]:
        """(months, price per month) of each subscription."""
        if not self.monthly:
            return ()
        return tuple((m, self.price_e5 * HOURS_IN_A_MONTH * percent // 100) for m, percent in _MONTHLY_PERCENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuProduct:
    """A kind of machine without GPU."""

    id: str
    name: str
    cpus: int
    memory_gb: int
    price_e5: int
    rootfs_gb: int = 30
    volume_gb: int = 30


@dataclass(frozen=True, slots=True)
class Catalog:
    """All of it, by id."""

    products: dict[str, Product]
    cpu_products: dict[str, CpuProduct]
    clusters: dict[str, Cluster]


def _cluster(cluster_id: str, code: str, place: str, features: str = "") -> Cluster:
    return Cluster(
        id=cluster_id, code=code, place=place, network_storage="s" in features, instance_network="n" in features
    )


_CLUSTERS = (
    _cluster("us-ca-6", "US-CA-06", "California", "sn"),
    _cluster("as-sgp-2", "AS-SGP-02", "Singapore", "sn"),
    _cluster("cn-hongkong-1", "CN-HK-01", "Hong Kong", "s"),
    _cluster("as-in-1", "AS-IN-01", "India", "s"),
    _cluster("us-ca-1", "US-CA-01", "California"),
    _cluster("us-ca-3", "US-CA-03", "California"),
    _cluster("us-ca-7", "US-CA-07", "California"),
    _cluster("us-ca-nas-2", "US-CA-NAS-02", "California", "s"),
    _cluster("us-dallas-1", "US-01", "Dallas"),
    _cluster("as-sgp-1", "AS-SGP-01", "Singapore"),
    _cluster("as-uae-1", "AS-AE-01", "UAE"),
    _cluster("af-za-1", "AF-ZA-01", "South Africa"),
    _cluster("eu-gb-1", "EU-GB-01", "United Kingdom"),
    _cluster("eu-ger-1", "EU-GER-01", "Germany", "s"),
    _cluster("eu-ger-2", "EU-GER-02", "Germany"),
    _cluster("eu-is-1", "EU-IS-01", "Iceland"),
    _cluster("jp-tokyo-1", "JP-TYO-01", "Japan"),
    _cluster("jp-tokyo-2", "JP-TYO-02", "Japan", "s"),
    _cluster("oc-au-1", "OC-AU-01", "Australia"),
    _cluster("sa-brazil-1", "SA-BR-01", "Brazil"),
)

_4090 = "RTX 4090 24GB"
_5090 = "RTX 5090 32GB"
_H100 = "H100 SXM 80GB"


def _product(  # noqa: PLR0917  # one row of the table below
    product_id: str,
    name: str,
    cpus: int,
    memory: int,
    cents: int,
    spot_cents: int,
    clusters: str,
    *,
    monthly: bool = True,
) -> Product:
    return Product(
        id=product_id,
        name=name,
        cpus=cpus,
        memory_gb=memory,
        price_e5=cents * 1000,
        spot_e5=spot_cents * 1000,
        monthly=monthly,
        clusters=tuple(clusters.split()),
    )


_PRODUCTS = (
    _product("4090.16c62g", _4090, 16, 62, 35, 18, "us-ca-6 as-sgp-2 us-ca-7 eu-ger-1"),
    _product("4090.16c62g.os", _4090, 16, 62, 35, 18, "cn-hongkong-1 us-ca-3"),
    _product("4090.16c96g.v2", _4090, 16, 96, 35, 18, "as-in-1 as-sgp-2 us-ca-6"),
    _product("4090.16c125g", _4090, 16, 125, 35, 0, "as-sgp-2 eu-is-1 us-ca-nas-2"),
    _product("26", _4090, 16, 125, 67, 0, "us-ca-1 us-dallas-1", monthly=False),
    _product("4090.hf.24c58g", "RTX 4090 24GB (High frequency)", 24, 58, 69, 35, "us-ca-6 jp-tokyo-2"),
    _product("4090.hd.16c62g", "RTX 4090 24GB (High disk)", 16, 62, 39, 0, "us-ca-6", monthly=False),
    _product("3090.16c92g", "RTX 3090 24GB", 16, 92, 21, 0, "eu-gb-1 af-za-1 as-in-1"),
    _product("5090.16c96g", _5090, 16, 96, 50, 25, "as-sgp-2 us-ca-6 jp-tokyo-1"),
    _product("5090.24c120g", _5090, 24, 120, 50, 25, "cn-hongkong-1 eu-ger-2"),
    _product("6000ada.22c125g", "RTX 6000 Ada 48GB", 22, 125, 70, 0, "us-ca-6 as-in-1"),
    _product("L40S.28c125g", "L40S 48GB", 28, 125, 55, 0, "us-ca-6 eu-ger-1 oc-au-1"),
    _product("A100-80GB.14c240g", "A100 SXM 80GB", 14, 240, 160, 80, "as-sgp-2 us-dallas-1 sa-brazil-1"),
    _product("H100-80GB.16c128g", _H100, 16, 128, 145, 73, "us-ca-6 as-uae-1 as-in-1"),
    _product("H100-80GB.22c150g", _H100, 22, 150, 145, 73, "cn-hongkong-1 as-sgp-1"),
)

_CPU_PRODUCTS = (
    CpuProduct(id="cpu.2c4g", name="CPU 2 cores 4GB", cpus=2, memory_gb=4, price_e5=4000),
    CpuProduct(id="cpu.8c16g", name="CPU 8 cores 16GB", cpus=8, memory_gb=16, price_e5=16000),
)


def seeded() -> Catalog:
    """The catalog every world begins with."""
    return Catalog(
        products={product.id: product for product in _PRODUCTS},
        cpu_products={product.id: product for product in _CPU_PRODUCTS},
        clusters={cluster.id: cluster for cluster in _CLUSTERS},
    )
