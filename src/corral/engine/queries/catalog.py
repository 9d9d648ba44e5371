"""
What can be had, and where: the provider's products, clusters and templates, remembered for minutes.

Concurrent callers share one call to the provider. Of the cached values, only the failed offers are read again
(from the database) whenever an instance is to be placed: a shortage must count at once, and stop counting after three
minutes, for everyone.
Credentials of registries are never remembered.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cache.registry import CacheName, CacheRegistry
from corral.cloud.port import Cloud, Credentials
from corral.domain.errors import CloudError, CloudRefusedError, FieldProblem, NotFoundError, SpecInvalidError
from corral.domain.placement.catalog import BillingMode, Cluster, Product, Template, TemplateChannel, TemplateSummary
from corral.domain.placement.pricing import usd
from corral.domain.placement.rank import (
    SHORT_FOR_NOW,
    Offer,
    PlacementRequest,
    Ranking,
    RegionStock,
    Rejection,
    Shortages,
    rank,
)
from corral.domain.placement.regions import find_cluster, has_name, is_sold_in, region_order
from corral.engine.batcher import Batcher
from corral.store.tables.offers import FailedOffers

PRICE_MAX_AGE_SECONDS = 2.0
"""How old a price may be that `maxPrice` is compared with before a create. Longer, and one is bought above its limit;
shorter, and every create of a burst reads the price by itself."""
_NEVER_FRESH = float("-inf")
_MOST_SIMILAR = 5
LATELY_SECONDS = 1.0
"""A burst of creates needs one read of the failed offers, not one each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stock:
    """One answer of the provider."""

    products: tuple[Product, ...]
    read_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """A ranking, and when the oldest of what it was made from was read."""

    ranking: Ranking
    read_at: float


class Catalog:
    """The provider's offers, as selection sees them. Any call may raise a CloudError."""

    def __init__(
        self,
        cloud: Cloud,
        caches: CacheRegistry,
        offers: FailedOffers,
        clock: Clock,
        *,
        default_region: str,
        regions: Sequence[str],
    ) -> None:
        self._cloud = cloud
        self._offers = offers
        self._clock = clock
        self._default_region = default_region
        self._regions = tuple(regions)
        self._lately: Cache[Shortages] = Cache(ttl_seconds=LATELY_SECONDS, most_entries=1, clock=clock)
        self._failed = Batcher[datetime, Shortages](self._read_failed)
        self._stock: Cache[_Stock] = caches[CacheName.PRODUCTS]
        self._ranked: Cache[_Ranked] = caches[CacheName.OPTIMAL_PRODUCTS]
        self._templates: Cache[Template] = caches[CacheName.TEMPLATES]
        self._template_lists: Cache[tuple[TemplateSummary, ...]] = caches[CacheName.TEMPLATE_LISTS]
        self._clusters: Cache[tuple[Cluster, ...]] = caches[CacheName.CLUSTERS]

    def region_order(self, preferred: str | None = None, instead: Sequence[str] | None = None) -> tuple[str, ...]:
        """
        The regions to try: *preferred* (or the default one), then the priority list, or *instead* of it.

        With *instead* and nothing preferred, the default region is not tried: who lists regions means those.
        """
        if instead is not None:
            return region_order(preferred or (), instead)
        return region_order(preferred or self._default_region, self._regions)

    async def candidates(self, request: PlacementRequest, *, or_short: bool = False) -> Ranking:
        """
        The offers for *request*, best first; NotFoundError says whether the product is unknown or out of stock.

        It is a first choice, and does without offers that failed as far as this process knew a second ago: `plan` says
        what is true now, and a caller that acts must use it. With *or_short* there may be no candidate, if some
        offer is only short for now.
        """
        shortages = await self._lately.get("all", self._failed_lately)
        ranking = (await self._ranking(request)).without(shortages, request.gpu_num)
        waits = or_short and any(r.product_id and r.reason in SHORT_FOR_NOW for r in ranking.rejected)
        if not ranking.candidates and not waits:
            raise NotFoundError(
                f"no {request.product_name.strip()} can be had for {' or '.join(request.billing_modes)} "
                f"in {', '.join(request.regions) or 'no region'}",
                code="NO_OPTIMAL_PRODUCT_ANY_REGION",
                details={"tried": [_rejection_details(rejection) for rejection in ranking.rejected]},
            )
        return ranking

    async def plan(self, request: PlacementRequest, *, max_age_seconds: float | None = None) -> Ranking:
        """
        All that is considered for *request*, also when nothing of it can be had; raises for an unknown product only.

        With *max_age_seconds* products read longer ago are read again, and offers refused longer ago are considered.
        """
        if max_age_seconds is None:
            return (await self._ranking(request)).without(await self._failed.add(self._clock.now()), request.gpu_num)
        failed = await self._offers.recent(self._clock.now(), timedelta(seconds=max_age_seconds))
        return (await self._rank(request, max_age_seconds)).ranking.without(failed, request.gpu_num)

    async def current_price(self, offer: Offer) -> int | None:
        """What *offer* costs now, in micro-USD per GPU-hour; None when it is not sold any more."""
        return await self.price(offer.cluster_id, offer.product_id, offer.billing_mode, PRICE_MAX_AGE_SECONDS)

    async def products(self, *, region: str | None, billing_mode: BillingMode) -> tuple[Product, ...]:
        """What is for sale in *region*, or anywhere; raises SpecInvalidError when there is no such region."""
        if region is None:
            return (await self._products_of(None, billing_mode)).products
        clusters = await self.clusters()
        cluster = find_cluster(region, clusters)
        if cluster is None:
            known = ", ".join(sorted(c.region for c in clusters))
            problem = f"is not a region of the provider; there are {known}"
            raise SpecInvalidError([FieldProblem(field="region", code="INVALID_REGION", message=problem, value=region)])
        stock = await self._products_of(cluster.id, billing_mode)
        return tuple(product for product in stock.products if is_sold_in(product, cluster))

    async def price(
        self, cluster_id: str, product_id: str, mode: BillingMode, max_age_seconds: float | None = None
    ) -> int | None:
        """What a product costs there, in micro-USD per GPU-hour; None when it is not sold so."""
        stock = await self._products_of(cluster_id, mode, max_age_seconds)
        found = next((product for product in stock.products if product.id == product_id), None)
        return None if found is None else found.price_micro_usd(mode)

    async def clusters(self) -> tuple[Cluster, ...]:
        """Every cluster of the provider."""

        async def load() -> tuple[Cluster, ...]:
            return tuple(await self._cloud.clusters())

        found = await self._clusters.get("all", load)
        if not found:  # a provider without any cluster has a bad moment, which must not be remembered
            self._clusters.drop("all")
        return found

    async def note_shortage(self, offer: Offer, reason: str, *, gpu_num: int) -> None:
        """Keep *offer* out of choices of *gpu_num* GPUs or more for three minutes, in this process from now on."""
        await self._offers.remember(offer, gpu_num=gpu_num, reason=reason, now=self._clock.now())
        self._lately.clear()

    def has_template(self, template_id: str) -> bool:
        """Whether `template` would answer without asking the provider."""
        return self._templates.peek(template_id) is not None

    async def template(self, template_id: str) -> Template:
        """One template; raises NotFoundError when there is none, CloudRefusedError when it cannot be used."""
        try:
            return await self._templates.get(template_id, partial(self._cloud.template, template_id))
        except CloudRefusedError as error:
            if error.code != "TEMPLATE_NOT_FOUND":
                raise
            raise NotFoundError(f"the provider has no template {template_id!r}", code=error.code) from error

    async def templates(self) -> tuple[TemplateSummary, ...]:
        """What can be run: the account's own templates first, then the official ones, each by name."""
        lists = await asyncio.gather(*(self._listed(channel) for channel in TemplateChannel))
        return tuple(found for listed in lists for found in sorted(listed, key=lambda t: (t.name.casefold(), t.id)))

    async def credentials(self, auth_id: str) -> Credentials:
        """The login of a private registry, read each time; raises NotFoundError when there is none."""
        found = await self._cloud.registry_credentials(auth_id)
        if found is None:
            raise NotFoundError(
                f"the template's image needs registry login {auth_id!r}, and the provider's account has no such login",
                code="REGISTRY_AUTH_NOT_FOUND",
            )
        return found

    async def _listed(self, channel: TemplateChannel) -> tuple[TemplateSummary, ...]:
        async def load() -> tuple[TemplateSummary, ...]:
            return tuple(await self._cloud.templates(channel))

        return await self._template_lists.get(channel.value, load)

    async def _read_failed(self, asked_at: Sequence[datetime]) -> list[Shortages]:
        """One reading for all who asked before it began."""
        return [await self._offers.recent(max(asked_at))] * len(asked_at)

    async def _failed_lately(self) -> Shortages:
        return await self._offers.recent(self._clock.now())

    async def _ranking(self, request: PlacementRequest) -> Ranking:
        """Without regard to offers that failed."""
        ranked = await self._ranked.get(_key(request), partial(self._rank, request), since=lambda found: found.read_at)
        return ranked.ranking

    async def _products_of(
        self, cluster_id: str | None, mode: BillingMode, max_age_seconds: float | None = None
    ) -> _Stock:
        """Everything a cluster has, whatever its name: one call then serves every request for that cluster."""
        key = f"{cluster_id or 'any'}:{mode.value}"
        held = None if max_age_seconds is None else self._stock.peek(key)
        if held is not None and self._clock.monotonic() - held.read_at > (max_age_seconds or 0.0):
            self._stock.drop(key)
            self._ranked.clear()  # made from what is read again

        async def load() -> _Stock:
            found = await self._cloud.products(cluster_id=cluster_id, billing_mode=mode)
            return _Stock(products=tuple(found), read_at=self._clock.monotonic())

        return await self._stock.get(key, load)

    async def _rank(self, request: PlacementRequest, max_age_seconds: float | None = None) -> _Ranked:
        clusters = await self.clusters()
        visits = await asyncio.gather(
            *(self._visit(region, clusters, request, max_age_seconds) for region in request.regions)
        )
        ranking = rank(request, [region_stock for region_stock, _, _ in visits])
        trouble = next((error for _, _, error in visits if error is not None), None)
        if trouble is not None and not ranking.candidates:
            raise trouble
        if not ranking.candidates and not any(_has_product_id(r) for r in ranking.rejected):
            await self._check_name(request.product_name, max_age_seconds)
        # A ranking that lacks a region because the provider stumbled is used once and not kept.
        read_at = min((at for _, at, _ in visits), default=_NEVER_FRESH)
        return _Ranked(ranking=ranking, read_at=read_at)

    async def _visit(
        self, region: str, clusters: Sequence[Cluster], request: PlacementRequest, max_age_seconds: float | None
    ) -> tuple[RegionStock, float, CloudError | None]:
        """What one region has, and when that was read; its failure is returned, so that other regions still count."""
        cluster = find_cluster(region, clusters)
        if cluster is None:
            return RegionStock(region=region, cluster=None), self._clock.monotonic(), None
        try:
            stocks = await asyncio.gather(
                *(self._products_of(cluster.id, mode, max_age_seconds) for mode in request.billing_modes)
            )
        except CloudError as error:
            return RegionStock(region=region, cluster=cluster, unreachable_because=error.message), _NEVER_FRESH, error
        products = dict(zip(request.billing_modes, (stock.products for stock in stocks), strict=True))
        return RegionStock(region=region, cluster=cluster, products=products), min(s.read_at for s in stocks), None

    async def _check_name(self, name: str, max_age_seconds: float | None) -> None:
        """Raise NotFoundError when the provider sells nothing called *name* anywhere, in any way."""
        stocks = await asyncio.gather(*(self._products_of(None, mode, max_age_seconds) for mode in BillingMode))
        names = {product.name.strip() for stock in stocks for product in stock.products}
        if any(has_name(product, name) for stock in stocks for product in stock.products):
            return
        similar = _similar(name, names)
        hint = f"; did you mean {' or '.join(similar)}?" if similar else "; GET /api/products lists what there is"
        raise NotFoundError(
            f"no product is called {name.strip()!r}{hint}", code="PRODUCT_NOT_FOUND", details={"similar": similar}
        )


def _key(request: PlacementRequest) -> str:
    """The cache key of *request*."""
    modes = "+".join(request.billing_modes)
    limit = "any" if request.max_micro_usd_per_gpu is None else request.max_micro_usd_per_gpu
    regions = ",".join(region_order(request.regions))
    return f"{request.product_name.strip()}|{regions}|{modes}|{request.gpu_num}|{limit}"


def _has_product_id(rejection: Rejection) -> bool:
    return rejection.product_id is not None


def _similar(name: str, names: set[str]) -> list[str]:
    """Names similar to *name*."""
    wanted = name.strip().casefold()
    by_folded = {known.casefold(): known for known in sorted(names)}
    parts = [folded for folded in by_folded if wanted and wanted in folded]
    close = difflib.get_close_matches(wanted, by_folded, n=_MOST_SIMILAR)
    return [by_folded[folded] for folded in dict.fromkeys(parts + close)][:_MOST_SIMILAR]


def _rejection_details(rejection: Rejection) -> dict[str, object]:
    price = rejection.micro_usd_per_gpu
    return {
        "region": rejection.region,
        "productId": rejection.product_id,
        "billingMode": rejection.billing_mode,
        "pricePerGpu": None if price is None else usd(price),
        "reason": rejection.reason,
        "message": rejection.because,
    }
