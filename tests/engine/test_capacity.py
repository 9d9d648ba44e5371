"""A create that meets an obstacle: it takes another offer, or waits and says for what."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from support.stepped_engine import ORDER, Herd, herding

from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.tables import Phase
from corral.domain.placement.catalog import BillingMode
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


@pytest.fixture
async def herd(database: Database, target: DatabaseTarget) -> AsyncGenerator[Herd]:
    async with herding(database, target) as herd:
        yield herd


def sell_out(herd: Herd, gpus: int | None = 0) -> None:
    """Leave so many GPUs of what is ordered, everywhere; None: as many as at first."""
    for product in herd.sim.world.catalog.products.values():
        if product.name == ORDER.product_name:
            for cluster in product.clusters:
                herd.sim.set_stock(product.id, cluster, gpus)


async def emitted(herd: Herd, instance_id: InstanceId) -> list[str]:
    async with herd.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events WHERE instance_id = $1 ORDER BY id", instance_id)
    return [row["type"].removeprefix("instance.") for row in rows]


def creates(herd: Herd) -> int:
    total: int = herd.sim.calls()["endpoints"]["create"]["total"]
    return total


@pytest.mark.parametrize("reason", ["INSUFFICIENT_RESOURCE", "UNSUPPORTED_BILLING_MODE"])
async def test_spot_fallback_also_counts_when_the_create_call_refuses_spot(herd: Herd, reason: str) -> None:
    """The catalog offers spot for minutes after the last spot machine went."""
    herd.sim.set(spot_create=reason)
    wish = await herd.wish(replace(ORDER, spot_fallback=True))
    await herd.work()
    made = await herd.get(wish)

    assert made.phase is Phase.STARTING
    assert made.placement is not None
    assert made.placement.billing_mode is BillingMode.ON_DEMAND
    assert {tried.billing_mode for tried in made.tried} == {BillingMode.SPOT}


async def test_a_shortage_of_eight_gpus_does_not_keep_one_from_being_created(herd: Herd) -> None:
    """Three are left: enough for the second request."""
    wide = await herd.wish(replace(ORDER, gpu_num=8))
    sell_out(herd, 3)
    await herd.work()
    assert (await herd.get(wide)).phase is Phase.CREATING
    narrow = await herd.wish()
    await herd.work()

    assert (await herd.get(narrow)).phase is Phase.STARTING
    assert (await herd.get(narrow)).attempt == 1


async def test_the_price_is_read_again_before_a_create_with_a_limit(herd: Herd) -> None:
    """The catalog that was remembered is older than the price."""
    first = await herd.wish()
    await herd.work()
    paid = (await herd.get(first)).placement
    assert paid is not None
    limited = replace(ORDER, max_micro_usd_per_gpu=paid.micro_usd)
    second = await herd.wish(limited)
    raise_prices(herd)
    herd.clock.advance(3)
    await herd.work()
    refused = await herd.get(second)

    assert (refused.phase, refused.provider_id) == (Phase.CREATING, None)
    assert any("now costs" in tried.reason for tried in refused.tried)
    assert creates(herd) == 1


async def test_all_offers_short_waits_visibly_and_creates_once_one_is_left(herd: Herd) -> None:
    """The request was accepted: it is tried again, and told once that it waits."""
    wish = await herd.wish()
    sell_out(herd)
    await herd.steps(30)
    waits = await herd.get(wish)
    assert waits.phase is Phase.CREATING
    assert waits.waiting is not None
    assert waits.waiting.code == "RESOURCE_CONSTRAINTS"
    assert waits.waiting.message.startswith("waiting for capacity")
    sell_out(herd, None)
    await herd.until(wish, Phase.READY, steps=200)

    assert await emitted(herd, wish) == ["created", "waiting", "starting", "running", "health_checking", "ready"]
    assert creates(herd) <= 10, "the shortage is remembered; waiting costs few create calls"


async def test_an_offer_that_the_call_refused_is_tried_again_soon_after_it_is_in_stock(herd: Herd) -> None:
    """The catalog said all the time that it can be had: only a create call shows it."""
    herd.sim.set(spot_create="INSUFFICIENT_RESOURCE")
    wish = await herd.wish()
    await herd.steps(3)
    refused = creates(herd)
    assert (await herd.get(wish)).waiting is not None
    herd.sim.set(spot_create="accepted")
    await herd.until(wish, Phase.READY, steps=35)

    assert creates(herd) == refused + 1


async def test_it_fails_at_the_deadline_with_what_it_waited_for(herd: Herd) -> None:
    """Not with a time-out that says nothing."""
    wish = await herd.wish(minutes=20)
    sell_out(herd)
    failed = await herd.until(wish, Phase.FAILED, steps=50, seconds=30)

    assert failed.failure is not None
    assert failed.failure.code == "RESOURCE_CONSTRAINTS"
    assert (failed.phase_since - failed.created_at).total_seconds() >= 1200


@pytest.mark.parametrize(("wait", "lasts"), [(0, 0), (600, 600)])
async def test_the_request_says_how_long_it_waits_for_capacity(herd: Herd, wait: int, lasts: int) -> None:
    """0 fails at once, and without an event that it waits."""
    wish = await herd.wish(replace(ORDER, wait_for_capacity_seconds=wait), minutes=20 + wait / 60)
    sell_out(herd)
    failed = await herd.until(wish, Phase.FAILED, steps=60, seconds=15)

    assert lasts <= (failed.phase_since - failed.created_at).total_seconds() <= lasts + 30
    assert await emitted(herd, wish) == (["created", "failed"] if not wait else ["created", "waiting", "failed"])


async def test_a_machine_found_after_a_wait_has_its_full_time_to_come_up(
    database: Database, target: DatabaseTarget
) -> None:
    """The wait is not taken from it."""
    async with herding(database, target, boot_seconds=600) as herd:
        wish = await herd.wish(minutes=20)
        sell_out(herd)
        await herd.steps(30, seconds=30)
        sell_out(herd, None)
        await herd.until(wish, Phase.READY, steps=100, seconds=15)

        assert "timeout" not in await emitted(herd, wish)


async def passes(herd: Herd, wish: InstanceId, code: str) -> Instance:
    """Let a create meet its obstacle for a while; it must wait for it."""
    await herd.steps(10)
    waits = await herd.get(wish)
    assert waits.phase is Phase.CREATING
    assert waits.waiting is not None
    assert waits.waiting.code == code
    assert (await emitted(herd, wish))[-1] == "waiting"
    return waits


async def test_a_rejected_key_is_waited_for(herd: Herd) -> None:
    """It is put right by a person, or by the provider; what was accepted must not be lost meanwhile."""
    herd.sim.fault("unauthorized", on="create", count=None)
    wish = await herd.wish()
    await passes(herd, wish, "AUTHENTICATION_FAILED")
    herd.sim.no_more_faults()
    await herd.until(wish, Phase.READY, steps=100)


async def test_an_account_that_cannot_pay_is_waited_for(database: Database, target: DatabaseTarget) -> None:
    """Until it is topped up."""
    async with herding(database, target, instance_limit=1) as herd:
        first = await herd.wish()
        await herd.until(first, Phase.READY)
        wish = await herd.wish()
        await passes(herd, wish, "INSUFFICIENT_BALANCE")
        herd.sim.set(instance_limit=0)
        await herd.until(wish, Phase.READY, steps=100)


async def test_an_empty_catalog_is_waited_for(herd: Herd) -> None:
    """The product was for sale when the request was accepted."""
    world = herd.sim.world
    full = world.catalog
    world.catalog = replace(full, products={})
    wish = await herd.wish()
    await passes(herd, wish, "PRODUCT_NOT_FOUND")
    world.catalog = full
    await herd.until(wish, Phase.READY, steps=100)


async def test_a_create_that_is_not_carried_out_says_why_it_waits(herd: Herd) -> None:
    """The front of the provider refuses it: one event, the reason on the instance, and the pauses of an outage."""
    herd.sim.fault("html", on="create", count=None)
    wish = await herd.wish()
    waits = await passes(herd, wish, "NOVITA_API_ERROR")
    assert waits.waiting is not None
    assert "HTTP 403" in waits.waiting.message
    assert creates(herd) == 4, "at 2, 8, 14 and 20 s: every 5 s, rounded up to a step"
    herd.sim.no_more_faults()
    herd.sim.fault("throttle", on="create", count=2)
    ready = await herd.until(wish, Phase.READY, steps=30)

    assert ready.waiting is None
    assert await emitted(herd, wish) == ["created", "waiting", "starting", "running", "health_checking", "ready"]


async def test_a_create_whose_offers_cannot_be_read_says_why_it_waits(herd: Herd) -> None:
    """The call is not even sent, and the request was accepted all the same."""
    herd.sim.fault("error_500", on="products", count=None)
    wish = await herd.wish()
    await passes(herd, wish, "NOVITA_API_ERROR")
    herd.sim.no_more_faults()
    await herd.until(wish, Phase.READY, steps=30)


async def test_a_create_that_was_never_carried_out_fails_with_the_reason(herd: Herd) -> None:
    """At its deadline, also when it had waited for capacity before."""
    wish = await herd.wish(minutes=5)
    sell_out(herd)
    await herd.steps(3)
    sell_out(herd, None)
    herd.sim.fault("html", on="create", count=None)
    failed = await herd.until(wish, Phase.FAILED, steps=30, seconds=15)

    assert failed.failure is not None
    assert failed.failure.code == "NOVITA_API_ERROR"
    assert "HTTP 403" in failed.failure.message
    assert (failed.phase_since - failed.created_at).total_seconds() >= 300
    assert await emitted(herd, wish) == ["created", "waiting", "waiting", "failed"]


async def test_an_earlier_call_in_doubt_is_remembered_while_offers_cannot_be_read(herd: Herd) -> None:
    """Its machine may still appear, after the doubt was settled."""
    wish = await herd.wish(replace(ORDER, max_micro_usd_per_gpu=10_000_000))
    herd.sim.fault("error_500", on="create")
    await herd.work()
    assert (await herd.get(wish)).create_in_doubt
    herd.sim.fault("error_500", on="products", count=None)
    await herd.steps(40)
    waits = await passes(herd, wish, "NOVITA_API_ERROR")
    assert waits.attempt == 1
    herd.sim.no_more_faults()

    assert (await herd.until(wish, Phase.READY, steps=30)).given_up == (1,)


async def test_what_is_not_wanted_any_more_stops_waiting(herd: Herd) -> None:
    """Nothing was created, so nothing is looked for."""
    wish = await herd.wish()
    sell_out(herd)
    await herd.steps(3)
    await herd.unwish(wish)
    await herd.work()

    assert await herd.phase(wish) is Phase.TERMINATED


def raise_prices(herd: Herd) -> None:
    catalog = herd.sim.world.catalog
    dear = {
        key: replace(product, spot_e5=product.spot_e5 * 5, price_e5=product.price_e5 * 5)
        for key, product in catalog.products.items()
    }
    herd.sim.world.catalog = replace(catalog, products=dear)
