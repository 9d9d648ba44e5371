"""
Comparing names: users, products and clusters write regions and product names differently.

Users write a code ("AS-SGP-02"), the cluster list has display names ("AS-SGP-02 (Singapore)") and ids ("as-sgp-2"),
and products mix all three. An id cannot be derived from a name, so names are only ever compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.domain.placement.catalog import Cluster, Product


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
