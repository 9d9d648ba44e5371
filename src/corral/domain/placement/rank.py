"""
Where an instance goes: every offer that could serve a wish, best first, and why each other one could not.

The order: billing mode (spot first, on-demand only as its fallback), then region as wished, then price per GPU-hour,
then more memory, more vCPU, and the id, so that no two offers tie and the order of what the provider lists does not
matter. All offers of a region are candidates, not only the cheapest: when the provider refuses one for want of stock
the next one of the same region is the best that is left.

Nothing is dropped silently: each wished region, and each product of the wished name in it, is a candidate or is
rejected with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from corral.domain.placement.catalog import BillingMode, Cluster, Product
from corral.domain.placement.pricing import usd_text
from corral.domain.placement.regions import has_name, is_sold_in, region_order


class Reason(StrEnum):
    """Why an offer, or a whole region, was not taken."""

    UNKNOWN_REGION = "unknown_region"
    """The provider has no such region."""
    SAME_REGION = "same_region"
    """Another name for a region that is already tried."""
    REGION_UNREACHABLE = "region_unreachable"
    """The provider could not be asked about it."""
    NO_SUCH_PRODUCT = "no_such_product"
    """Nothing of that name is listed there."""
    NOT_IN_REGION = "not_in_region"
    """Listed, but the product itself says it is sold elsewhere only."""
    NO_PRICE = "no_price"
    """Not sold in that billing mode: its price is missing or zero."""
    TOO_DEAR = "too_dear"
    """Dearer than the wish allows."""
    OUT_OF_STOCK = "out_of_stock"
    FAILED_RECENTLY = "failed_recently"
    """The provider refused it for want of stock a moment ago."""


SHORT_FOR_NOW = frozenset({Reason.OUT_OF_STOCK, Reason.FAILED_RECENTLY})
"""Reasons that pass by themselves: what is rejected for one of them may be had later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What somebody wants to run on."""

    product_name: str
    regions: tuple[str, ...]
    """In the order to try; see `naming.region_order`."""
    billing_mode: BillingMode = BillingMode.SPOT
    spot_fallback: bool = False
    """Whether on-demand will do when no region has spot."""
    max_micro_usd_per_gpu: int | None = None
    """The most one GPU-hour may cost; None means any price."""
    gpu_num: int = 1

    @property
    def billing_modes(self) -> tuple[BillingMode, ...]:
        """The modes that will do, best first."""
        falls_back = self.spot_fallback and self.billing_mode is BillingMode.SPOT
        return (BillingMode.SPOT, BillingMode.ON_DEMAND) if falls_back else (self.billing_mode,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStock:
    """What one region has to offer."""

    region: str
    """As the wish names it."""
    cluster: Cluster | None
    """None when the provider has no such region."""
    products: Mapping[BillingMode, Sequence[Product]] = field(default_factory=dict[BillingMode, Sequence[Product]])
    unreachable_because: str | None = None
    """Set when the provider could not be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One product in one cluster, paid for in one way: what a create call asks for and what can run out."""

    product_id: str
    cluster_id: str
    billing_mode: BillingMode


Shortages = Mapping[Offer, int]
"""Offers that the provider recently refused for want of stock, and the fewest GPUs that it refused of each."""
NO_SHORTAGES: Shortages = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An offer that would serve the wish."""

    region: str
    """The provider's code of it, however the wish wrote it."""
    offer: Offer
    product: Product
    micro_usd_per_gpu: int
    micro_usd: int
    """Per hour, for the whole instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """An offer, or a whole region, that would not; what is not known of it is None."""

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
    """All that was considered for a wish."""

    candidates: tuple[Candidate, ...]
    """Best first."""
    rejected: tuple[Rejection, ...]

    def without(self, shortages: Shortages, gpu_num: int) -> Ranking:
        """The same, with candidates that were short of *gpu_num* GPUs recently moved to the rejected."""
        short = {offer for offer, fewest in shortages.items() if fewest <= gpu_num}
        if not short:
            return self
        left = tuple(c for c in self.candidates if c.offer not in short)
        gone = (_failed(c) for c in self.candidates if c.offer in short)
        return Ranking(candidates=left, rejected=(*self.rejected, *gone))


def rank(wish: PlacementRequest, region_stocks: Iterable[RegionStock], shortages: Shortages = NO_SHORTAGES) -> Ranking:
    """
    Every offer on *region_stocks* that serves *wish*, best first, and every one that does not.

    A wished region without a shelf is unknown; a shelf nobody wished for is passed over.
    """
    shelf_of = {region_stock.region.strip().casefold(): region_stock for region_stock in region_stocks}
    aisles: list[_ClusterStock] = []
    rejected: list[Rejection] = []
    for region in region_order(wish.regions):
        found = _enter(region, shelf_of.get(region.casefold()), aisles)
        if isinstance(found, _ClusterStock):
            aisles.append(found)
        else:
            rejected.append(found)
    candidates: list[Candidate] = []
    for mode in wish.billing_modes:
        for cluster_stock in aisles:
            for verdict in _look_through(wish, mode, cluster_stock):
                if isinstance(verdict, Candidate):
                    candidates.append(verdict)
                else:
                    rejected.append(verdict)
    return Ranking(candidates=tuple(candidates), rejected=tuple(rejected)).without(shortages, wish.gpu_num)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterStock:
    """A region that can be looked through."""

    region: str
    cluster: Cluster
    products: Mapping[BillingMode, Sequence[Product]]


def _enter(
    region: str, region_stock: RegionStock | None, entered: Iterable[_ClusterStock]
) -> _ClusterStock | Rejection:
    """The region, or why nothing of it can be had at all."""
    if region_stock is None or region_stock.cluster is None:
        because = f"the provider has no region {region}"
        return Rejection(region=region, reason=Reason.UNKNOWN_REGION, because=because)
    cluster = region_stock.cluster
    twin = next((cluster_stock.region for cluster_stock in entered if cluster_stock.cluster.id == cluster.id), None)
    if twin is not None:
        because = f"{region} is another name for {twin}"
        return Rejection(region=region, reason=Reason.SAME_REGION, because=because, cluster_id=cluster.id)
    if region_stock.unreachable_because is not None:
        because = f"the provider could not be asked about {region}: {region_stock.unreachable_because}"
        return Rejection(region=region, reason=Reason.REGION_UNREACHABLE, because=because, cluster_id=cluster.id)
    return _ClusterStock(region=cluster.region, cluster=cluster, products=region_stock.products)


def _look_through(
    wish: PlacementRequest, mode: BillingMode, cluster_stock: _ClusterStock
) -> Iterator[Candidate | Rejection]:
    """A verdict on every product of the wished name in one region, best first."""
    region, cluster = cluster_stock.region, cluster_stock.cluster
    named = _distinct((p for p in cluster_stock.products.get(mode, ()) if has_name(p, wish.product_name)), mode)
    if not named:
        yield Rejection(
            region=region,
            reason=Reason.NO_SUCH_PRODUCT,
            because=f"nothing called {wish.product_name.strip()!r} is listed in {region} for {mode.value}",
            cluster_id=cluster.id,
            billing_mode=mode,
        )
    for product in named:
        offer = Offer(product_id=product.id, cluster_id=cluster.id, billing_mode=mode)
        price = product.price_micro_usd(mode) or 0
        obstacle = _obstacle(wish, mode, cluster_stock, product)
        if obstacle is None:
            yield Candidate(
                region=region,
                offer=offer,
                product=product,
                micro_usd_per_gpu=price,
                micro_usd=price * wish.gpu_num,
            )
        else:
            yield _rejection(region, offer, price, *obstacle)


def _distinct(products: Iterable[Product], mode: BillingMode) -> list[Product]:
    """Each product once, best first; of two entries with one id the better one counts."""

    def standing(product: Product) -> tuple[object, ...]:
        price = product.price_micro_usd(mode) or 0
        return (price <= 0, price, -product.memory_gb_per_gpu, -product.cpu_per_gpu, product.id)

    by_id: dict[str, Product] = {}
    for product in sorted(products, key=lambda p: (not p.available, *standing(p), p.regions)):
        by_id.setdefault(product.id, product)
    return sorted(by_id.values(), key=standing)


def _obstacle(
    wish: PlacementRequest, mode: BillingMode, cluster_stock: _ClusterStock, product: Product
) -> tuple[Reason, str] | None:
    """What stands against this product, the most lasting obstacle first."""
    region, price, limit = cluster_stock.region, product.price_micro_usd(mode) or 0, wish.max_micro_usd_per_gpu
    if not is_sold_in(product, cluster_stock.cluster):
        return Reason.NOT_IN_REGION, f"{product.id} is not sold in {region}"
    if price <= 0:
        return Reason.NO_PRICE, f"{product.id} has no {mode.value} price in {region}"
    if limit is not None and price > limit:
        dear = f"{product.id} costs {usd_text(price)} per GPU-hour in {region}"
        return Reason.TOO_DEAR, f"{dear}, more than the {usd_text(limit)} allowed"
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
