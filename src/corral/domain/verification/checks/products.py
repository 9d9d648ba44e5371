"""What Corral assumes about what is sold: products, prices, clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from corral.domain.placement.catalog import region_code
from corral.domain.verification.evidence import AccountProbe, DiffersError, Evidence, NotSeenError
from corral.domain.verification.json_values import (
    Kind,
    array,
    kind_of,
    number,
    text,
    wrong_fields,
)
from corral.domain.verification.judge import Check

UNITS_PER_USD: Final = 100_000
USUAL_USD: Final[Mapping[str, tuple[float, float]]] = {
    "RTX 3090": (0.05, 1.0),
    "RTX 4090": (0.10, 1.5),
    "RTX 5090": (0.15, 2.5),
    "L40S": (0.20, 3.0),
    "A100": (0.40, 6.0),
    "H100": (0.50, 8.0),
}
"""
What an hour of one GPU costs at any provider, by its name; wide, because prices move.

Narrower, and a sale counts as another unit; wider than a factor of ten, and another unit is not noticed.
"""
_PRODUCT: Final[Mapping[str, Kind]] = {
    "id": Kind.TEXT,
    "name": Kind.TEXT,
    "cpuPerGpu": Kind.NUMERIC,
    "memoryPerGpu": Kind.NUMERIC,
    "availableDeploy": Kind.FLAG,
    "regions": Kind.ARRAY,
    "billingMethods": Kind.ARRAY,
    "price": Kind.NUMERIC,
    "spotPrice": Kind.NUMERIC,
}
_CLUSTER: Final[Mapping[str, Kind]] = {"id": Kind.TEXT, "name": Kind.TEXT}


def fields_of(seen: Evidence, probe: AccountProbe, key: str, fields: Mapping[str, Kind]) -> str:
    """Whether everything in the array *key* has *fields*."""
    found = seen.some(probe, key)
    wrong = wrong_fields(found, fields)
    if wrong:
        raise DiffersError("; ".join(wrong))
    return f"{len(fields)} fields of {len(found)}"


def _price_type(seen: Evidence) -> str:
    kinds = sorted({kind_of(item.get("price")) for item in seen.some(AccountProbe.PRODUCTS, "data")})
    if kinds != ["text"]:
        raise DiffersError(f"`price` is {', '.join(kinds)}")
    return "`price` is text"


def _price_unit(seen: Evidence) -> str:
    compared = 0
    for item in seen.some(AccountProbe.PRODUCTS, "data"):
        usd = (number(item.get("price")) or 0) / UNITS_PER_USD
        for name, (least, most) in USUAL_USD.items():
            if name in text(item.get("name")) and usd > 0:
                compared += 1
                if not least <= usd <= most:
                    raise DiffersError(f"an hour of one {name} would cost ${usd:g}; usual are ${least:g} to ${most:g}")
    if not compared:
        raise NotSeenError("no product has a GPU of known price")
    return f"{compared} products cost what their GPU usually costs"


def _spot_price(seen: Evidence) -> str:
    found = seen.some(AccountProbe.SPOT_PRODUCTS, "data")
    for item in found:
        spot, price = number(item.get("spotPrice")) or 0, number(item.get("price")) or 0
        if not 0 < spot <= price:
            raise DiffersError("a product that is sold as spot has no spot price, or one above its price")
    return f"{len(found)} products, each not above its price on demand"


def _billing_filter(seen: Evidence) -> str:
    found = seen.some(AccountProbe.SPOT_PRODUCTS, "data")
    if any("spot" not in array(item.get("billingMethods")) for item in found):
        raise DiffersError("products were given that are not sold as spot")
    return f"{len(found)} products, all sold as spot"


def _cluster_filter(seen: Evidence) -> str:
    cluster_id = seen.answer(AccountProbe.CLUSTER_PRODUCTS).asked.get("clusterId")
    cluster = next((c for c in seen.some(AccountProbe.CLUSTERS, "data") if c.get("id") == cluster_id), {})
    here = _names(cluster)
    found = seen.some(AccountProbe.CLUSTER_PRODUCTS, "data")
    elsewhere = [item for item in found if (regions := array(item.get("regions"))) and not here & _codes(regions)]
    if elsewhere:
        raise DiffersError(f"{len(elsewhere)} of {len(found)} products are not sold in the cluster that was asked for")
    return f"{len(found)} products, all sold in the cluster that was asked for"


def _regions(seen: Evidence) -> str:
    known = {text(cluster.get("name")) for cluster in seen.some(AccountProbe.CLUSTERS, "data")}
    named = [region for item in seen.some(AccountProbe.PRODUCTS, "data") for region in array(item.get("regions"))]
    if not named:
        raise DiffersError("no product has regions")
    unknown = {text(region) for region in named} - known
    if unknown:
        raise DiffersError(f"{len(unknown)} of {len(set(map(text, named)))} regions are not the name of a cluster")
    return f"{len(set(map(text, named)))} regions, each the name of a cluster"


def _own_regions(seen: Evidence) -> str:
    known = {name for cluster in seen.some(AccountProbe.CLUSTERS, "data") for name in _names(cluster)}
    missing = [region for region in seen.expected.regions if region.strip().casefold() not in known]
    if missing:
        raise DiffersError(f"there is no cluster for {', '.join(missing)}")
    return f"there is a cluster for {', '.join(seen.expected.regions)}"


def _names(cluster: Mapping[str, object]) -> set[str]:
    name = text(cluster.get("name"))
    return {text(cluster.get("id")).casefold(), name.casefold(), region_code(name).casefold()}


def _codes(regions: Sequence[object]) -> set[str]:
    return {name for region in map(text, regions) for name in (region.casefold(), region_code(region).casefold())}


CHECKS: Final = (
    Check(
        id="catalog.products",
        assumes="a product has the documented fields; numbers may be text",
        otherwise="a product without an id, a name or a price cannot be chosen",
        copes=False,
        judge=lambda seen: fields_of(seen, AccountProbe.PRODUCTS, "data", _PRODUCT),
    ),
    Check(
        id="catalog.price_type",
        assumes="the price of a product is text, although the documentation says number",
        otherwise="a number is read as well",
        judge=_price_type,
    ),
    Check(
        id="catalog.price_unit",
        assumes="prices are in 1/100000 USD for one GPU and hour",
        otherwise="every price that Corral shows, limits and sums is wrong by that factor; their order is right",
        copes=False,
        judge=_price_unit,
    ),
    Check(
        id="catalog.spot_price",
        assumes="a product that is sold as spot has a spot price, not above its price on demand",
        otherwise="a product without one is not offered as spot; offers are ranked by their price",
        judge=_spot_price,
    ),
    Check(
        id="catalog.billing_filter",
        assumes="products can be asked for by how they are billed",
        otherwise="the billing methods and prices of each product decide",
        judge=_billing_filter,
    ),
    Check(
        id="catalog.cluster_filter",
        assumes="with a cluster, the products that are in stock there are given",
        otherwise="its regions decide; where stock is gone, the create is refused and the next offer taken",
        judge=_cluster_filter,
    ),
    Check(
        id="catalog.clusters",
        assumes="a cluster has an id and a name, and no id follows from a name",
        otherwise="one without a name goes by its id; one without an id cannot be chosen",
        copes=False,
        judge=lambda seen: fields_of(seen, AccountProbe.CLUSTERS, "data", _CLUSTER),
    ),
    Check(
        id="catalog.regions",
        assumes="the regions of a product are names of clusters",
        otherwise="codes and ids of clusters are read as well; a product without regions counts as sold everywhere",
        judge=_regions,
    ),
    Check(
        id="catalog.own_regions",
        assumes="there is a cluster for each region in the settings",
        otherwise="offers of a region without a cluster are rejected",
        copes=False,
        setting="DEFAULT_REGION, CORRAL_REGIONS",
        judge=_own_regions,
    ),
)
