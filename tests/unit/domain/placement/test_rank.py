"""Where an instance goes, case by case."""

from __future__ import annotations

from decimal import Decimal

import pytest

from corral.domain.placement.catalog import BillingMode, Cluster, Product, find_cluster, is_sold_in, region_order
from corral.domain.placement.pricing import micro_usd, usd, usd_text
from corral.domain.placement.rank import Offer, PlacementRequest, Reason, RegionStock, rank

SPOT, ON_DEMAND = BillingMode.SPOT, BillingMode.ON_DEMAND
SGP = Cluster(id="as-sgp-2", name="AS-SGP-02 (Singapore)")
HK = Cluster(id="cn-hongkong-1", name="CN-HK-01 (Hong Kong)")
SOUTH = Cluster(id="cn-south-1", name="cn-south-1")
NAME = "RTX 4090 24GB"


def product(
    product_id: str,
    *,
    spot: int | None = 180_000,
    on_demand: int | None = 350_000,
    memory: int = 62,
    cpu: int = 16,
    available: bool = True,
    regions: tuple[str, ...] = (),
    name: str = NAME,
) -> Product:
    return Product(
        id=product_id,
        name=name,
        cpu_per_gpu=cpu,
        memory_gb_per_gpu=memory,
        available=available,
        regions=regions,
        spot_micro_usd=spot,
        on_demand_micro_usd=on_demand,
    )


def region_stock(cluster: Cluster, *products: Product) -> RegionStock:
    return RegionStock(region=cluster.region, cluster=cluster, products={SPOT: products, ON_DEMAND: products})


def request(*regions: str, **more: object) -> PlacementRequest:
    return PlacementRequest(product_name=NAME, regions=regions or ("AS-SGP-02",), **more)  # type: ignore[arg-type]  # test's own


def test_the_requested_region_goes_before_a_cheaper_one() -> None:
    """People choose a region for latency or law; price decides within it."""
    stock = [region_stock(SGP, product("cheap", spot=100_000)), region_stock(HK, product("dear", spot=200_000))]

    ranking = rank(request("CN-HK-01", "AS-SGP-02"), stock)

    assert [c.offer.product_id for c in ranking.candidates] == ["dear", "cheap"]


def test_ties_go_to_more_memory_then_more_cpu_then_the_id() -> None:
    """The same money buys more."""
    stock = region_stock(SGP, product("b"), product("a"), product("cpu", cpu=24), product("mem", memory=96))

    assert [c.offer.product_id for c in rank(request(), [stock]).candidates] == ["mem", "cpu", "a", "b"]


def test_on_demand_of_all_regions_comes_after_spot_of_all() -> None:
    """A cheaper bill far away goes before a dearer one nearby, when falling back was asked for."""
    stock = [region_stock(SGP, product("x", spot=None)), region_stock(HK, product("x"))]

    ranking = rank(request("AS-SGP-02", "CN-HK-01", spot_fallback=True), stock)

    assert [(c.region, c.offer.billing_mode) for c in ranking.candidates] == [
        ("CN-HK-01", SPOT),
        ("AS-SGP-02", ON_DEMAND),
        ("CN-HK-01", ON_DEMAND),
    ]


@pytest.mark.parametrize(
    ("found", "more", "reason", "because"),
    [
        (product("p", spot=None), {}, Reason.NO_PRICE, "p has no spot price in AS-SGP-02"),
        (product("p", spot=0), {}, Reason.NO_PRICE, "p has no spot price in AS-SGP-02"),
        (product("p", available=False), {}, Reason.OUT_OF_STOCK, "p is out of stock in AS-SGP-02"),
        (product("p", regions=("CN-HK-01 (Hong Kong)",)), {}, Reason.NOT_IN_REGION, "p is not sold in AS-SGP-02"),
        (
            product("p"),
            {"max_micro_usd_per_gpu": 179_999},
            Reason.TOO_DEAR,
            "p costs 0.18 USD per GPU-hour in AS-SGP-02, more than the 0.179999 USD allowed",
        ),
        (
            product("p", name="RTX 4090 24GB (High frequency)"),
            {},
            Reason.NO_SUCH_PRODUCT,
            "nothing called 'RTX 4090 24GB' is listed in AS-SGP-02 for spot",
        ),
    ],
)
def test_each_rejection_says_why(found: Product, more: dict[str, object], reason: Reason, because: str) -> None:
    """The reason is for programs, the sentence for people."""
    ranking = rank(request(**more), [region_stock(SGP, found)])

    assert ranking.candidates == ()
    assert [(r.reason, r.because) for r in ranking.rejected] == [(reason, because)]


def test_only_the_cluster_of_the_volumes_will_do() -> None:
    """However cheap the others are, and whatever else is wrong with them."""
    stock = [region_stock(SGP, product("x", spot=1)), region_stock(HK, product("x"))]

    ranking = rank(request("AS-SGP-02", "CN-HK-01", "nowhere", cluster_id=HK.id), stock)

    assert [c.region for c in ranking.candidates] == ["CN-HK-01"]
    assert [(r.region, r.reason, r.because, r.cluster_id) for r in ranking.rejected] == [
        ("AS-SGP-02", Reason.VOLUME_ELSEWHERE, "the volumes of this request are not in AS-SGP-02", SGP.id),
        ("nowhere", Reason.UNKNOWN_REGION, "the provider has no region nowhere", None),
    ]


def test_a_region_is_rejected_as_a_whole_when_nothing_of_it_can_be_had() -> None:
    """Once, not once for each billing mode."""
    stock = [
        region_stock(SGP, product("p")),
        RegionStock(region="as-sgp-2", cluster=SGP),
        RegionStock(region="CN-HK-01", cluster=HK, unreachable_because="time-out"),
    ]

    ranking = rank(request("AS-SGP-02", "as-sgp-2", "CN-HK-01", "MOON-01", spot_fallback=True), stock)

    assert [(r.region, r.reason, r.because) for r in ranking.rejected] == [
        ("as-sgp-2", Reason.SAME_REGION, "as-sgp-2 is another name for AS-SGP-02"),
        ("CN-HK-01", Reason.REGION_UNREACHABLE, "the provider could not be asked about CN-HK-01: time-out"),
        ("MOON-01", Reason.UNKNOWN_REGION, "the provider has no region MOON-01"),
    ]


def test_an_offer_that_failed_recently_waits() -> None:
    """Only that product, in that cluster, in that mode."""
    stock = [region_stock(SGP, product("p")), region_stock(HK, product("p"))]
    failed = {Offer(product_id="p", cluster_id="as-sgp-2", billing_mode=SPOT): 1}

    ranking = rank(request("AS-SGP-02", "CN-HK-01"), stock, failed)

    assert [c.region for c in ranking.candidates] == ["CN-HK-01"]
    assert [(r.region, r.reason) for r in ranking.rejected] == [("AS-SGP-02", Reason.FAILED_RECENTLY)]


def test_a_shortage_counts_only_for_as_many_gpus_or_more() -> None:
    """Where eight are not to be had together, one may be."""
    stock = [region_stock(SGP, product("p"))]
    failed = {Offer(product_id="p", cluster_id="as-sgp-2", billing_mode=SPOT): 8}

    assert rank(request(gpu_num=7), stock, failed).candidates
    assert not rank(request(gpu_num=8), stock, failed).candidates


def test_the_price_is_for_all_gpus() -> None:
    """`price` in answers is for the whole instance."""
    (candidate,) = rank(request(gpu_num=4), [region_stock(SGP, product("p"))]).candidates

    assert (candidate.micro_usd_per_gpu, candidate.micro_usd) == (180_000, 720_000)


def test_regions_are_tried_once_each_in_their_order() -> None:
    """The preferred one first, wherever the list has it."""
    assert region_order("cn-hk-01", ["AS-SGP-02", "CN-HK-01 ", "AS-IN-01"]) == ("cn-hk-01", "AS-SGP-02", "AS-IN-01")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("AS-SGP-02", SGP),
        (" as-sgp-02 ", SGP),
        ("AS-SGP-02 (Singapore)", SGP),
        ("cn-hongkong-1", HK),
        ("cn-south-1", SOUTH),
        ("AS-SGP", None),
    ],
)
def test_a_region_is_found_by_code_display_name_or_id(word: str, found: Cluster | None) -> None:
    """The id cannot be derived from the code, so only comparing helps."""
    assert find_cluster(word, [SOUTH, HK, SGP]) == found


@pytest.mark.parametrize(
    ("regions", "sold"),
    [
        ((), True),
        (("AS-SGP-02 (Singapore)",), True),
        (("AS-SGP-02",), True),
        (("as-sgp-2",), True),
        (("AS-SGP-01 (Singapore)", "cn-south-1"), False),
    ],
)
def test_a_product_names_its_regions_in_any_way(regions: tuple[str, ...], sold: bool) -> None:  # noqa: FBT001
    """The provider mixes display names, codes and raw ids."""
    assert is_sold_in(product("p", regions=regions), SGP) is sold


def test_money_is_exact() -> None:
    """Micro-USD inside, decimal USD outside, and a limit never rounds up."""
    assert (usd(180_000), usd_text(180_000), usd_text(1_000_000)) == (0.18, "0.18 USD", "1 USD")
    assert micro_usd(Decimal("0.1799999")) == 179_999
