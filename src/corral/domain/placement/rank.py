"""
Ranks the offers for a placement request, best first, and gives a reason for each rejected one.

The order: billing mode (spot first, on-demand only as its fallback), then region as requested, then price per GPU-hour,
then more memory, more vCPU, and the id, so that no two offers tie and the order of the provider's list does not matter.
All offers of a region are candidates, not only the cheapest: when one is out of stock, the next of the same region is
tried.

Nothing is dropped silently: each requested region, and each product of the requested name in it, is either a candidate
or rejected with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from corral.domain.placement.catalog import BillingMode, Cluster, Product, has_name, is_sold_in, region_order
from corral.domain.placement.pricing import usd_text


class Reason(StrEnum):
    """Why an offer, or a whole region, was not taken."""

    UNKNOWN_REGION = "unknown_region"
    """The provider has no such region."""
    SAME_REGION = "same_region"
    """Another name for a region that is already in the list."""
    REGION_UNREACHABLE = "region_unreachable"
    """Its products could not be read from the provider."""
    VOLUME_ELSEWHERE = "volume_elsewhere"
    """The volumes that the request mounts are in another region."""
    NO_SUCH_PRODUCT = "no_such_product"
    """No product of that name is listed there."""
    NOT_IN_REGION = "not_in_region"
    """Listed, but the product's own regions do not include this one."""
    NO_PRICE = "no_price"
    """Not sold in that billing mode: its price is missing or zero."""
    TOO_DEAR = "too_dear"
    """More expensive than the request allows."""
    OUT_OF_STOCK = "out_of_stock"
    FAILED_RECENTLY = "failed_recently"
    """The provider refused it a moment ago because it was out of stock."""


SHORT_FOR_NOW = frozenset({Reason.OUT_OF_STOCK, Reason.FAILED_RECENTLY})
"""Temporary reasons: an offer rejected for one of them may be available later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """The part of a create request that decides where it runs."""

    product_name: str
    regions: tuple[str, ...]
    """In the order to try; see `regions.region_order`."""
    billing_mode: BillingMode = BillingMode.SPOT
    spot_fallback: bool = False
    """Whether on-demand is acceptable when no region has spot."""
    max_micro_usd_per_gpu: int | None = None
    """The most one GPU-hour may cost; None means any price."""
    gpu_num: int = 1
    cluster_id: str | None = None
    """The only cluster that will do, because the volumes of the request are there; None: any."""

    @property
    def billing_modes(self) -> tuple[BillingMode, ...]:
        """The acceptable modes, best first."""
        falls_back = self.spot_fallback and self.billing_mode is BillingMode.SPOT
        return (BillingMode.SPOT, BillingMode.ON_DEMAND) if falls_back else (self.billing_mode,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStock:
    """The products of one region."""

    region: str
    """As the request names it."""
    cluster: Cluster | None
    """None when the provider has no such region."""
    products: Mapping[BillingMode, Sequence[Product]] = field(default_factory=dict[BillingMode, Sequence[Product]])
    unreachable_because: str | None = None
    """Set when the provider's list could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One product in one cluster in one billing mode: what a create call orders and what can be out of stock."""

    product_id: str
    cluster_id: str
    billing_mode: BillingMode


Shortages = Mapping[Offer, int]
"""Offers recently refused as out of stock, with the smallest number of GPUs refused for each."""
NO_SHORTAGES: Shortages = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An offer that satisfies the request."""

    region: str
    """The provider's code, however the request spells it."""
    offer: Offer
    product: Product
    micro_usd_per_gpu: int
    micro_usd: int
    """Per hour, for the whole instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """An offer, or a whole region, that does not satisfy the request; unknown details are None."""

    region: str
    reason: Reason
    because: str
    """The reason as a sentence."""
    cluster_id: str | None = None
    product_id: str | None = None
    billing_mode: BillingMode | None = None
    micro_usd_per_gpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Every offer considered for a request."""

    candidates: tuple[Candidate, ...]
    """Best first."""
    rejected: tuple[Rejection, ...]

    def without(self, shortages: Shortages, gpu_num: int) -> Ranking:
        """The same, with the candidates that recently had fewer than *gpu_num* GPUs moved to the rejected."""
        short = {offer for offer, fewest in shortages.items() if fewest <= gpu_num}
        if not short:
            return self
        left = tuple(c for c in self.candidates if c.offer not in short)
        gone = (_failed(c) for c in self.candidates if c.offer in short)
        return Ranking(candidates=left, rejected=(*self.rejected, *gone))


def rank(
    request: PlacementRequest, region_stocks: Iterable[RegionStock], shortages: Shortages = NO_SHORTAGES
) -> Ranking:
    """
    Every offer in *region_stocks* that satisfies *request*, best first, and every rejected one.

    A requested region that is not in *region_stocks* is unknown; a region that was not requested is ignored.
    """
    stock_by_region = {stock.region.strip().casefold(): stock for stock in region_stocks}
    clusters: list[_ClusterStock] = []
    rejected: list[Rejection] = []
    for region in region_order(request.regions):
        found = _cluster_stock(region, stock_by_region.get(region.casefold()), clusters, request.cluster_id)
        if isinstance(found, _ClusterStock):
            clusters.append(found)
        else:
            rejected.append(found)
    candidates: list[Candidate] = []
    for mode in request.billing_modes:
        for stock in clusters:
            for offer in _offers(request, mode, stock):
                if isinstance(offer, Candidate):
                    candidates.append(offer)
                else:
                    rejected.append(offer)
    return Ranking(candidates=tuple(candidates), rejected=tuple(rejected)).without(shortages, request.gpu_num)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterStock:
    """A region whose products are known."""

    region: str
    cluster: Cluster
    products: Mapping[BillingMode, Sequence[Product]]


def _cluster_stock(
    region: str, stock: RegionStock | None, previous: Iterable[_ClusterStock], only: str | None
) -> _ClusterStock | Rejection:
    """The products of *region*, or why the whole region is rejected; *only* is the cluster of the request's volumes."""
    if stock is None or stock.cluster is None:
        because = f"the provider has no region {region}"
        return Rejection(region=region, reason=Reason.UNKNOWN_REGION, because=because)
    cluster = stock.cluster
    same = next((other.region for other in previous if other.cluster.id == cluster.id), None)
    if same is not None:
        because = f"{region} is another name for {same}"
        return Rejection(region=region, reason=Reason.SAME_REGION, because=because, cluster_id=cluster.id)
    if only not in {None, cluster.id}:
        because = f"the volumes of this request are not in {region}"
        return Rejection(region=region, reason=Reason.VOLUME_ELSEWHERE, because=because, cluster_id=cluster.id)
    if stock.unreachable_because is not None:
        because = f"the provider could not be asked about {region}: {stock.unreachable_because}"
        return Rejection(region=region, reason=Reason.REGION_UNREACHABLE, because=because, cluster_id=cluster.id)
    return _ClusterStock(region=cluster.region, cluster=cluster, products=stock.products)


def _offers(request: PlacementRequest, mode: BillingMode, stock: _ClusterStock) -> Iterator[Candidate | Rejection]:
    """Every product of the requested name in one region, as candidate or rejection, best first."""
    region, cluster = stock.region, stock.cluster
    named = _distinct((p for p in stock.products.get(mode, ()) if has_name(p, request.product_name)), mode)
    if not named:
        yield Rejection(
            region=region,
            reason=Reason.NO_SUCH_PRODUCT,
            because=f"nothing called {request.product_name.strip()!r} is listed in {region} for {mode.value}",
            cluster_id=cluster.id,
            billing_mode=mode,
        )
    for product in named:
        offer = Offer(product_id=product.id, cluster_id=cluster.id, billing_mode=mode)
        price = product.price_micro_usd(mode) or 0
        obstacle = _obstacle(request, mode, stock, product)
        if obstacle is None:
            yield Candidate(
                region=region, offer=offer, product=product, micro_usd_per_gpu=price, micro_usd=price * request.gpu_num
            )
        else:
            yield _rejection(region, offer, price, *obstacle)


def _distinct(products: Iterable[Product], mode: BillingMode) -> list[Product]:
    """Each product once, best first; of two entries with one id the better one is kept."""

    def sort_key(product: Product) -> tuple[object, ...]:
        price = product.price_micro_usd(mode) or 0
        return (price <= 0, price, -product.memory_gb_per_gpu, -product.cpu_per_gpu, product.id)

    by_id: dict[str, Product] = {}
    for product in sorted(products, key=lambda p: (not p.available, *sort_key(p), p.regions)):
        by_id.setdefault(product.id, product)
    return sorted(by_id.values(), key=sort_key)


def _obstacle(
    request: PlacementRequest, mode: BillingMode, stock: _ClusterStock, product: Product
) -> tuple[Reason, str] | None:
    """Why this product is rejected, the most permanent reason first; None when it is a candidate."""
    region, price, limit = stock.region, product.price_micro_usd(mode) or 0, request.max_micro_usd_per_gpu
    if not is_sold_in(product, stock.cluster):
        return Reason.NOT_IN_REGION, f"{product.id} is not sold in {region}"
    if price <= 0:
        return Reason.NO_PRICE, f"{product.id} has no {mode.value} price in {region}"
    if limit is not None and price > limit:
        cost = f"{product.id} costs {usd_text(price)} per GPU-hour in {region}"
        return Reason.TOO_DEAR, f"{cost}, more than the {usd_text(limit)} allowed"
    if not product.available:
        return Reason.OUT_OF_STOCK, f"{product.id} is out of stock in {region}"
    return None


def _failed(candidate: Candidate) -> Rejection:
    because = f"{candidate.offer.product_id} in {candidate.region} was refused for want of stock a moment ago"
    return _rejection(candidate.region, candidate.offer, candidate.micro_usd_per_gpu, Reason.FAILED_RECENTLY, because)


def _rejection(region: str, offer: Offer, price: int, reason: Reason, because: str) -> Rejection:
    return Rejection(
        region=region,
        reason=reason,
        because=because,
        cluster_id=offer.cluster_id,
        product_id=offer.product_id,
        billing_mode=offer.billing_mode,
        micro_usd_per_gpu=price if price > 0 else None,
    )
