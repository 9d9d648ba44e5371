"""What can be had, and where: asked once, chosen well, explained."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from support.clock.clocks import SteppedClock
from support.provider.catalog_provider import RTX_3090, RTX_4090, RTX_4090_HF, TEMPLATE, CatalogProvider

from corral.base.settings.settings import CacheSettings
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.errors import CloudRefusedError, CloudTransientError, NotFoundError, SpecInvalidError
from corral.domain.placement.catalog import BillingMode
from corral.domain.placement.rank import Offer, PlacementRequest, Ranking, Reason
from corral.engine.queries.catalog import Catalog
from corral.store.session.database import Database
from corral.store.tables.offers import FailedOffers

PRIORITY = ("AS-SGP-02", "CN-HK-01", "AS-IN-01")


class Market:
    """A catalog over a provider in memory and the real database."""

    def __init__(self, database: Database) -> None:
        self.clock = SteppedClock()
        self.provider = CatalogProvider(self.clock)
        self.caches = CacheRegistry(CacheSettings(), self.clock)
        self.catalog = Catalog(
            self.provider,
            self.caches,
            FailedOffers(database),
            self.clock,
            default_region="CN-HK-01",
            regions=PRIORITY,
        )

    def request_create(self, name: str = "RTX 4090 24GB", **more: object) -> PlacementRequest:
        return PlacementRequest(product_name=name, regions=self.catalog.region_order(), **more)  # type: ignore[arg-type]  # test's


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database)


def chosen(ranking: Ranking) -> list[tuple[str, str]]:
    return [(c.region, c.offer.product_id) for c in ranking.candidates]


async def test_regions_are_asked_at_once_and_each_only_once(market: Market) -> None:
    """Creates of other products of the same clusters need no call."""
    market.provider.open.clear()
    requested = [
        market.request_create(),
        market.request_create(gpu_num=2),
        market.request_create("RTX 4090 24GB (High frequency)"),
    ] * 5
    asked = [asyncio.create_task(market.catalog.candidates(request)) for request in requested]
    market.provider.open.set()
    first, *_ = await asyncio.gather(*asked)

    assert chosen(first) == [("CN-HK-01", "4090.16c62g"), ("AS-SGP-02", "4090.16c62g")]
    assert market.provider.calls == {
        "clusters": 1,
        "products:as-sgp-2:spot": 1,
        "products:cn-hongkong-1:spot": 1,
        "products:as-in-1:spot": 1,
    }


async def test_a_ranking_is_no_younger_than_the_products_it_was_made_from(market: Market) -> None:
    """Two caches of five minutes must not make ten."""
    await market.catalog.products(region="CN-HK-01", billing_mode=BillingMode.SPOT)
    market.clock.advance(200)
    await market.catalog.candidates(market.request_create())
    market.provider.sell(replace(RTX_4090, id="fresh"), RTX_4090_HF)
    market.clock.advance(99)
    assert chosen(await market.catalog.candidates(market.request_create()))[0] == ("CN-HK-01", "4090.16c62g")
    assert market.caches[CacheName.OPTIMAL_PRODUCTS].stats().hits == 1

    market.clock.advance(1)
    assert chosen(await market.catalog.candidates(market.request_create()))[0] == ("CN-HK-01", "fresh")


async def test_a_failed_offer_is_left_out_at_once_and_for_three_minutes(market: Market) -> None:
    """Though the ranking itself is remembered for five."""
    best = (await market.catalog.candidates(market.request_create())).candidates[0]
    await market.catalog.note_shortage(best.offer, "no stock", gpu_num=1)
    ranking = await market.catalog.candidates(market.request_create())

    assert chosen(ranking) == [("AS-SGP-02", "4090.16c62g")]
    assert Reason.FAILED_RECENTLY in {rejection.reason for rejection in ranking.rejected}
    market.clock.advance(180)
    assert (await market.catalog.candidates(market.request_create())).candidates[0] == best


async def test_what_another_process_notes_counts_at_once_where_it_matters(market: Market, database: Database) -> None:
    """The create call reads a new plan; the first choice of a request may be a second old."""
    best = (await market.catalog.candidates(market.request_create())).candidates[0]
    await FailedOffers(database).remember(best.offer, gpu_num=1, reason="no stock", now=market.clock.now())

    assert best not in (await market.catalog.plan(market.request_create())).candidates
    assert (await market.catalog.candidates(market.request_create())).candidates[0] == best
    market.clock.advance(1)
    assert best not in (await market.catalog.candidates(market.request_create())).candidates


async def test_what_is_read_again_counts_for_everybody(market: Market) -> None:
    """A request is not refused for want of stock that another was just shown."""
    market.provider.set_stock(0)
    assert not (await market.catalog.plan(market.request_create())).candidates
    market.provider.set_stock(None)
    market.clock.advance(21)

    assert (await market.catalog.plan(market.request_create(), max_age_seconds=20)).candidates
    assert (await market.catalog.candidates(market.request_create())).candidates


async def test_an_unknown_product_is_reported_with_similar_names(market: Market) -> None:
    """Most unknown names are misspelt."""
    with pytest.raises(NotFoundError, match="did you mean RTX 4090 24GB") as caught:
        await market.catalog.plan(market.request_create("4090"))

    assert caught.value.code == "PRODUCT_NOT_FOUND"
    assert caught.value.details == {"similar": ["RTX 4090 24GB", "RTX 4090 24GB (High frequency)"]}
    with pytest.raises(NotFoundError, match="GET /api/products lists what there is"):
        await market.catalog.plan(market.request_create("Voodoo2"))


async def test_a_known_product_without_stock_is_reported_with_all_rejected_offers(market: Market) -> None:
    """Out of stock is not the same as unknown, also when the requested regions do not list it."""
    market.provider.set_stock(0)
    with pytest.raises(NotFoundError, match="no RTX 4090 24GB is available for spot in CN-HK-01") as caught:
        await market.catalog.candidates(market.request_create())

    assert (caught.value.code, caught.value.retryable) == ("NO_OPTIMAL_PRODUCT_ANY_REGION", True)
    assert caught.value.details["tried"] == [
        {
            "region": region,
            "productId": "4090.16c62g",
            "billingMode": "spot",
            "pricePerGpu": 0.18,
            "reason": "out_of_stock",
            "message": f"4090.16c62g is out of stock in {region}",
        }
        for region in ("CN-HK-01", "AS-SGP-02")
    ] + [
        {
            "region": "AS-IN-01",
            "productId": None,
            "billingMode": "spot",
            "pricePerGpu": None,
            "reason": "no_such_product",
            "message": "nothing called 'RTX 4090 24GB' is listed in AS-IN-01 for spot",
        }
    ]
    market.provider.sell(RTX_3090)
    elsewhere = PlacementRequest(product_name="rtx 3090 24gb", regions=("AS-IN-01",))
    market.caches.clear()
    assert (await market.catalog.plan(elsewhere)).candidates == ()


async def test_one_region_that_cannot_be_asked_does_not_spoil_the_others(market: Market) -> None:
    """It is reported as rejected, and read again the next time."""
    market.provider.trouble["cn-hongkong-1"] = CloudTransientError("time-out")
    ranking = await market.catalog.candidates(market.request_create())

    assert chosen(ranking) == [("AS-SGP-02", "4090.16c62g")]
    assert ranking.rejected[0].reason is Reason.REGION_UNREACHABLE
    market.provider.trouble.clear()
    assert chosen(await market.catalog.candidates(market.request_create()))[0][0] == "CN-HK-01"


async def test_a_provider_that_cannot_be_asked_is_not_an_empty_one(market: Market) -> None:
    """Nothing found among the regions that answered proves nothing about those that did not."""
    market.provider.trouble = {"cn-hongkong-1": CloudTransientError("time-out")}
    with pytest.raises(CloudTransientError, match="time-out"):
        await market.catalog.plan(market.request_create("Voodoo2"))

    market.provider.trouble = {None: CloudTransientError("down")}
    market.caches.clear()
    with pytest.raises(CloudTransientError, match="down"):
        await market.catalog.plan(market.request_create())


async def test_on_demand_offers_of_every_region_are_considered_when_falling_back(market: Market) -> None:
    """A product without spot is had on demand, when that was allowed."""
    ranking = await market.catalog.candidates(market.request_create("RTX 3090 24GB", spot_fallback=True))

    assert {c.offer for c in ranking.candidates} == {
        Offer(product_id="3090.16c92g", cluster_id=cluster, billing_mode=BillingMode.ON_DEMAND)
        for cluster in ("cn-hongkong-1", "as-sgp-2")
    }


async def test_the_preferred_region_is_tried_first_then_the_list(market: Market) -> None:
    """A request that lists regions replaces the list (`test_create_request.py`)."""
    order = market.catalog.region_order

    assert order() == ("CN-HK-01", "AS-SGP-02", "AS-IN-01")
    assert order("AS-IN-01") == ("AS-IN-01", "AS-SGP-02", "CN-HK-01")


async def test_an_unknown_region_is_reported_with_the_known_ones(market: Market) -> None:
    """Users need not know the provider's region codes."""
    with pytest.raises(SpecInvalidError) as caught:
        await market.catalog.products(region="MOON-01", billing_mode=BillingMode.SPOT)

    (problem,) = caught.value.problems
    assert (problem.code, problem.value) == ("INVALID_REGION", "MOON-01")
    assert "there are AS-IN-01, AS-SGP-02, CN-HK-01" in problem.message


async def test_a_template_is_remembered_for_ten_minutes(market: Market) -> None:
    """One that is missing or cannot be used is not."""
    assert await market.catalog.template(TEMPLATE.id) is await market.catalog.template(TEMPLATE.id)
    assert market.provider.calls["template"] == 1
    market.clock.advance(600)
    await market.catalog.template(TEMPLATE.id)
    assert market.provider.calls["template"] == 2
    with pytest.raises(NotFoundError) as missing:
        await market.catalog.template("1")
    assert missing.value.code == "TEMPLATE_NOT_FOUND"
    with pytest.raises(CloudRefusedError) as broken:
        await market.catalog.template("broken")
    assert broken.value.code == "INVALID_TEMPLATE"


async def test_registry_logins_are_never_remembered(market: Market) -> None:
    """A password that lives in no cache cannot leak from one."""
    for _ in range(2):
        assert (await market.catalog.credentials("auth-1")).username == "robot"
    assert market.provider.calls["registry_auths"] == 2
    assert all(cache.stats().size == 0 for _, cache in market.caches)
    with pytest.raises(NotFoundError) as missing:
        await market.catalog.credentials("auth-2")
    assert missing.value.code == "REGISTRY_AUTH_NOT_FOUND"
