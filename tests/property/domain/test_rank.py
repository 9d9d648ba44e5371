"""Laws of the ranking, for every catalog and every request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from corral.domain.placement.catalog import BillingMode, Cluster, Product, find_cluster, has_name, region_order
from corral.domain.placement.rank import Offer, PlacementRequest, RegionStock, Shortages, rank

CLUSTERS = (
    Cluster(id="as-sgp-2", name="AS-SGP-02 (Singapore)"),
    Cluster(id="cn-hongkong-1", name="CN-HK-01 (Hong Kong)"),
    Cluster(id="cn-south-1", name="cn-south-1"),
)
NAMES = ("RTX 4090 24GB", " rtx 4090 24gb", "RTX 4090 24GB (High frequency)", "H100 SXM 80GB")
REGIONS = ("AS-SGP-02", "as-sgp-02", "as-sgp-2", "CN-HK-01", "cn-south-1", "MOON-01")
PRICES = st.sampled_from([None, 0, 180_000, 180_000, 350_000, 690_000])
MODES = tuple(BillingMode)

products = st.builds(
    Product,
    id=st.sampled_from(["4090.16c62g", "4090.16c96g.v2", "26", "h100"]),
    name=st.sampled_from(NAMES),
    cpu_per_gpu=st.sampled_from([16, 24]),
    memory_gb_per_gpu=st.sampled_from([62, 96]),
    available=st.booleans(),
    regions=st.sampled_from([(), (), ("AS-SGP-02 (Singapore)", "cn-south-1"), ("CN-HK-01",), ("EU-01 (Nowhere)",)]),
    spot_micro_usd=PRICES,
    on_demand_micro_usd=PRICES,
)
stocks = st.lists(
    st.builds(
        lambda region, **more: RegionStock(region=region, cluster=find_cluster(region, CLUSTERS), **more),
        region=st.sampled_from(REGIONS),
        products=st.fixed_dictionaries({mode: st.lists(products, max_size=4) for mode in MODES}),
        unreachable_because=st.sampled_from([None, None, None, "time-out"]),
    ),
    max_size=5,
    unique_by=lambda region_stock: region_stock.region.casefold(),
)
requested = st.builds(
    PlacementRequest,
    product_name=st.sampled_from(NAMES),
    regions=st.lists(st.sampled_from(REGIONS), max_size=6).map(tuple),
    billing_mode=st.sampled_from(MODES),
    spot_fallback=st.booleans(),
    max_micro_usd_per_gpu=st.sampled_from([None, 100_000, 180_000, 400_000]),
    gpu_num=st.integers(min_value=1, max_value=8),
    cluster_id=st.sampled_from([None, None, "as-sgp-2", "cn-hongkong-1"]),
)
offers = st.builds(
    Offer,
    product_id=st.sampled_from(["4090.16c62g", "26"]),
    cluster_id=st.sampled_from([cluster.id for cluster in CLUSTERS]),
    billing_mode=st.sampled_from(MODES),
)
shortages = st.dictionaries(offers, st.integers(min_value=1, max_value=8))


@given(requested, stocks, shortages)
def test_every_region_and_product_is_taken_or_explained(
    request: PlacementRequest, stock: list[RegionStock], failed: Shortages
) -> None:
    """Every rejected offer has its reason."""
    ranking = rank(request, stock, failed)
    reported: set[tuple[str, str | None, BillingMode | None]]
    reported = {(c.region, c.offer.product_id, c.offer.billing_mode) for c in ranking.candidates}
    reported |= {(r.region, r.product_id, r.billing_mode) for r in ranking.rejected}
    closed = [r.region for r in ranking.rejected if r.billing_mode is None]
    opened = open_shelves(request, stock)

    assert {region for region, _, mode in reported if mode is not None} == set(opened)
    assert set(closed) <= set(region_order(request.regions))
    assert len(closed) + len(opened) == len(region_order(request.regions))
    assert len(reported) == len(ranking.candidates) + len(ranking.rejected)
    assert all(rejection.because for rejection in ranking.rejected)
    for region, mode in product(opened, request.billing_modes):
        named: set[str | None] = {p.id for p in opened[region].products[mode] if has_name(p, request.product_name)}
        assert {found for r, found, m in reported if (r, m) == (region, mode)} == (named or {None})


@given(requested, stocks, shortages, st.randoms())
def test_the_order_of_what_is_listed_does_not_matter(
    request: PlacementRequest, stock: list[RegionStock], failed: Shortages, chance: Random
) -> None:
    """Two processes that read the same catalog make the same choice."""
    shuffled = [_shuffled(region_stock, chance) for region_stock in stock]
    chance.shuffle(shuffled)

    assert rank(request, shuffled, failed) == rank(request, stock, failed)


@given(requested, stocks, shortages)
def test_no_candidate_violates_the_request(
    request: PlacementRequest, stock: list[RegionStock], failed: Shortages
) -> None:
    """Never dearer than allowed, out of stock, under another name, just failed, or where the volumes are not."""
    for candidate in rank(request, stock, failed).candidates:
        limit = request.max_micro_usd_per_gpu

        assert 0 < candidate.micro_usd_per_gpu <= (limit or candidate.micro_usd_per_gpu)
        assert candidate.product.price_micro_usd(candidate.offer.billing_mode) == candidate.micro_usd_per_gpu
        assert candidate.micro_usd == candidate.micro_usd_per_gpu * request.gpu_num
        assert candidate.product.available
        assert has_name(candidate.product, request.product_name)
        assert failed.get(candidate.offer, 9) > request.gpu_num
        assert candidate.offer.billing_mode in request.billing_modes
        assert request.cluster_id in {None, candidate.offer.cluster_id}


@given(requested, stocks, shortages)
def test_candidates_come_by_mode_then_region_then_price(
    request: PlacementRequest, stock: list[RegionStock], failed: Shortages
) -> None:
    """The order is strict: no two offers tie."""
    regions = list(open_shelves(request, stock))
    standings = [
        (
            request.billing_modes.index(c.offer.billing_mode),
            regions.index(c.region),
            c.micro_usd_per_gpu,
            -c.product.memory_gb_per_gpu,
            -c.product.cpu_per_gpu,
            c.offer.product_id,
        )
        for c in rank(request, stock, failed).candidates
    ]

    assert standings == sorted(set(standings))


@given(requested, stocks, shortages)
def test_failures_can_be_applied_later(request: PlacementRequest, stock: list[RegionStock], failed: Shortages) -> None:
    """A ranking is cached for minutes, failures are looked up at once: both ways must agree."""
    assert rank(request, stock).without(failed, request.gpu_num) == rank(request, stock, failed)


@given(requested, stocks, shortages)
def test_a_failed_offer_costs_no_other_its_place(
    request: PlacementRequest, stock: list[RegionStock], failed: Shortages
) -> None:
    """Trying the next candidate and ranking again give the same result."""
    everything = rank(request, stock).candidates

    assert rank(request, stock, failed).candidates == tuple(
        c for c in everything if failed.get(c.offer, 9) > request.gpu_num
    )


@given(stocks, st.booleans())
@example([], True)
def test_a_fallback_never_goes_before_spot(stock: list[RegionStock], fallback: bool) -> None:  # noqa: FBT001  # drawn
    """On-demand is for when no region has spot."""
    request = PlacementRequest(product_name=NAMES[0], regions=REGIONS, spot_fallback=fallback)
    modes = [candidate.offer.billing_mode for candidate in rank(request, stock).candidates]

    assert modes == sorted(modes, key=request.billing_modes.index)
    assert fallback or BillingMode.ON_DEMAND not in modes


def open_shelves(request: PlacementRequest, stock: list[RegionStock]) -> dict[str, RegionStock]:
    """By region code, in the requested order: the stock to search."""
    by_region = {region_stock.region.casefold(): region_stock for region_stock in stock}
    opened: dict[str, RegionStock] = {}
    for region in region_order(request.regions):
        region_stock = by_region.get(region.casefold())
        if region_stock is None or region_stock.cluster is None or region_stock.unreachable_because is not None:
            continue
        if request.cluster_id is None or request.cluster_id == region_stock.cluster.id:
            opened.setdefault(region_stock.cluster.region, region_stock)
    return opened


def _shuffled(region_stock: RegionStock, chance: Random) -> RegionStock:
    def mixed(found: Sequence[Product]) -> list[Product]:
        copy = list(found)
        chance.shuffle(copy)
        return copy

    return replace(region_stock, products={mode: mixed(found) for mode, found in region_stock.products.items()})
