"""
The provider's products, clusters and templates, cached for minutes, and the ranking of offers.

Simultaneous requests share one call to the provider. Failed offers are not cached but read from the database for every
placement, because a shortage counts at once, and for three minutes, in every process. Registry credentials are never
cached.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import msgspec

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cache.registry import CacheName, CacheRegistry
from corral.cloud.port import Cloud, Credentials
from corral.domain.errors import (
    CloudError,
    CloudRefusedError,
    FieldProblem,
    NotFoundError,
    OutOfStockError,
    SpecInvalidError,
)
from corral.domain.placement.catalog import (
    BillingMode,
    Cluster,
    Product,
    Template,
    TemplateChannel,
    TemplateSummary,
    find_cluster,
    has_name,
    is_sold_in,
    region_order,
)
from corral.domain.placement.rank import SHORT_FOR_NOW, Offer, PlacementRequest, Ranking, RegionStock, Shortages, rank
from corral.engine.batcher import Batcher
from corral.engine.queries.volumes import Volumes
from corral.store.tables.offers import FailedOffers
from corral.views.plan import plan_details

PRICE_MAX_AGE_SECONDS = 2.0
"""How old a price may be that `maxPrice` is compared with before a create. Longer, and one is bought above its limit;
shorter, and every create of a burst reads the price by itself."""
_NEVER_FRESH = float("-inf")
_MOST_SIMILAR = 5
FAILED_OFFERS_SECONDS = 1.0
"""How long failed offers are reused for a first choice, so that a burst of creates reads them once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stock:
    """The products of one cluster in one billing mode."""

    products: tuple[Product, ...]
    read_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """A ranking, and when the oldest of its sources was read."""

    ranking: Ranking
    read_at: float


class Catalog:
    """What the provider sells. Any call may raise a CloudError."""

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
        self._failed_recently: Cache[Shortages] = Cache(ttl_seconds=FAILED_OFFERS_SECONDS, most_entries=1, clock=clock)
        self._failed = Batcher[datetime, Shortages](self._read_failed)
        self._stock: Cache[_Stock] = caches[CacheName.PRODUCTS]
        self._ranked: Cache[_Ranked] = caches[CacheName.OPTIMAL_PRODUCTS]
        self._templates: Cache[Template] = caches[CacheName.TEMPLATES]
        self._template_lists: Cache[Sequence[TemplateSummary]] = caches[CacheName.TEMPLATE_LISTS]
        self._clusters: Cache[Sequence[Cluster]] = caches[CacheName.CLUSTERS]
        self.volumes = Volumes(cloud, caches, clock)

    def region_order(self, preferred: str | None = None) -> tuple[str, ...]:
        """The regions to try: *preferred* (or the default one), then the priority list."""
        return region_order(preferred or self._default_region, self._regions)

    async def candidates(self, wanted: PlacementRequest, *, or_short: bool = False) -> Ranking:
        """
        The offers for *wanted*, best first; raises NotFoundError, with different codes for unknown and unavailable.

        It is an OutOfStockError if some offer is only short for now.

        This is a first choice by the failed offers of up to a second ago; `plan` is exact, and a create call must use
        it. With *or_short* the ranking may have no candidate, if some offer is only short for now.
        """
        shortages = await self._failed_recently.get("all", self._load_failed)
        ranking = (await self._ranking(wanted)).without(shortages, wanted.gpu_num)
        is_short = any(r.product_id and r.reason in SHORT_FOR_NOW for r in ranking.rejected)
        if not ranking.candidates and not (or_short and is_short):
            raise (OutOfStockError if is_short else NotFoundError)(
                f"no {wanted.product_name.strip()} is available for {' or '.join(wanted.billing_modes)} "
                f"in {', '.join(wanted.regions) or 'no region'}",
                code="NO_OPTIMAL_PRODUCT_ANY_REGION",
                details={"tried": msgspec.to_builtins(plan_details(ranking).rejected)},
            )
        return ranking

    async def plan(self, wanted: PlacementRequest, *, max_age_seconds: float | None = None) -> Ranking:
        """
        Every offer considered for *wanted*, also when none is available; raises NotFoundError for an unknown product.

        With *max_age_seconds* products read longer ago are read again, and offers refused longer ago are considered.
        """
        if max_age_seconds is None:
            return (await self._ranking(wanted)).without(await self._failed.add(self._clock.now()), wanted.gpu_num)
        failed = await self._offers.recent(self._clock.now(), timedelta(seconds=max_age_seconds))
        return (await self._rank(wanted, max_age_seconds)).ranking.without(failed, wanted.gpu_num)

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

    async def clusters(self) -> Sequence[Cluster]:
        """Every cluster of the provider."""
        found = await self._clusters.get("all", self._cloud.clusters)
        if not found:  # a list without clusters is a fault of the provider, and is not cached
            self._clusters.drop("all")
        return found

    async def note_shortage(self, offer: Offer, reason: str, *, gpu_num: int) -> None:
        """Keep *offer* out of choices of *gpu_num* GPUs or more for three minutes, in this process from now on."""
        await self._offers.remember(offer, gpu_num=gpu_num, reason=reason, now=self._clock.now())
        self._failed_recently.clear()

    def has_template(self, template_id: str) -> bool:
        """Whether `template` returns without calling the provider."""
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
        """The account's own templates, then the official ones, each by name."""
        lists = await asyncio.gather(
            *(self._template_lists.get(each.value, partial(self._cloud.templates, each)) for each in TemplateChannel)
        )
        return tuple(found for listed in lists for found in sorted(listed, key=lambda t: (t.name.casefold(), t.id)))

    async def credentials(self, auth_id: str) -> Credentials:
        """The login of a private registry, never cached; raises NotFoundError when there is none."""
        found = await self._cloud.registry_credentials(auth_id)
        if found is None:
            raise NotFoundError(
                f"the image needs registry login {auth_id!r}, and the provider's account has no such login",
                code="REGISTRY_AUTH_NOT_FOUND",
            )
        return found

    async def _read_failed(self, asked_at: Sequence[datetime]) -> list[Shortages]:
        """One read for all requests that arrived before it began."""
        return [await self._offers.recent(max(asked_at))] * len(asked_at)

    async def _load_failed(self) -> Shortages:
        return await self._offers.recent(self._clock.now())

    async def _ranking(self, wanted: PlacementRequest) -> Ranking:
        """The ranking before failed offers are removed."""
        ranked = await self._ranked.get(_key(wanted), partial(self._rank, wanted), since=lambda found: found.read_at)
        return ranked.ranking

    async def _products_of(
        self, cluster_id: str | None, mode: BillingMode, max_age_seconds: float | None = None
    ) -> _Stock:
        """All products of a cluster, so that one call serves every request for it."""
        key = f"{cluster_id or 'any'}:{mode.value}"
        held = None if max_age_seconds is None else self._stock.peek(key)
        if held is not None and self._clock.monotonic() - held.read_at > (max_age_seconds or 0.0):
            self._stock.drop(key)
            self._ranked.clear()  # made from the products that are read again

        async def load() -> _Stock:
            found = await self._cloud.products(cluster_id=cluster_id, billing_mode=mode)
            return _Stock(products=tuple(found), read_at=self._clock.monotonic())

        return await self._stock.get(key, load)

    async def _rank(self, wanted: PlacementRequest, max_age_seconds: float | None = None) -> _Ranked:
        clusters = await self.clusters()
        visits = await asyncio.gather(
            *(self._visit(region, clusters, wanted, max_age_seconds) for region in wanted.regions)
        )
        ranking = rank(wanted, [region_stock for region_stock, _, _ in visits])
        trouble = next((error for _, _, error in visits if error is not None), None)
        if trouble is not None and not ranking.candidates:
            raise trouble
        if not ranking.candidates and all(r.product_id is None for r in ranking.rejected):
            await self._check_name(wanted.product_name, max_age_seconds)
        # A ranking that lacks a region because of a provider error is not cached.
        read_at = min((at for _, at, _ in visits), default=_NEVER_FRESH)
        return _Ranked(ranking=ranking, read_at=read_at)

    async def _visit(
        self, region: str, clusters: Sequence[Cluster], wanted: PlacementRequest, max_age_seconds: float | None
    ) -> tuple[RegionStock, float, CloudError | None]:
        """The stock of one region, when it was read, and its error: the other regions still count."""
        cluster = find_cluster(region, clusters)
        if cluster is None or wanted.cluster_id not in {None, cluster.id}:  # rejected, whatever it sells
            return RegionStock(region=region, cluster=cluster), self._clock.monotonic(), None
        try:
            stocks = await asyncio.gather(
                *(self._products_of(cluster.id, mode, max_age_seconds) for mode in wanted.billing_modes)
            )
        except CloudError as error:
            return RegionStock(region=region, cluster=cluster, unreachable_because=error.message), _NEVER_FRESH, error
        products = dict(zip(wanted.billing_modes, (stock.products for stock in stocks), strict=True))
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


def _key(wanted: PlacementRequest) -> str:
    """The cache key of *wanted*."""
    modes = "+".join(wanted.billing_modes)
    limit = "any" if wanted.max_micro_usd_per_gpu is None else wanted.max_micro_usd_per_gpu
    place = f"|{wanted.cluster_id}" if wanted.cluster_id else ""
    return f"{wanted.product_name.strip()}|{','.join(wanted.regions)}|{modes}|{wanted.gpu_num}|{limit}{place}"


def _similar(name: str, names: set[str]) -> list[str]:
    """Known names similar to *name*."""
    wanted = name.strip().casefold()
    by_folded = {known.casefold(): known for known in sorted(names)}
    parts = [folded for folded in by_folded if wanted and wanted in folded]
    close = difflib.get_close_matches(wanted, by_folded, n=_MOST_SIMILAR)
    return [by_folded[folded] for folded in dict.fromkeys(parts + close)][:_MOST_SIMILAR]
