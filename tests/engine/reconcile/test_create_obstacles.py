"""A create that meets an obstacle: it takes another offer, or waits and says for what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.engines.engine_steps import REQUEST
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.placement.catalog import BillingMode
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


def sell_out(engine: SteppedEngine, gpus: int | None = 0) -> None:
    """Leave so many GPUs of what is ordered, everywhere; None: as many as at first."""
    for product in engine.sim.world.catalog.products.values():
        if product.name == REQUEST.product_name:
            for cluster in product.clusters:
                engine.sim.set_stock(product.id, cluster, gpus)


def only_sell(engine: SteppedEngine, product_id: str) -> None:
    """Leave one product in the catalog, which is sold in both billing modes."""
    catalog = engine.sim.world.catalog
    engine.sim.world.catalog = replace(catalog, products={product_id: catalog.products[product_id]})


async def emitted(engine: SteppedEngine, instance_id: InstanceId) -> list[str]:
    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events WHERE instance_id = $1 ORDER BY id", instance_id)
    return [row["type"].removeprefix("instance.") for row in rows]


def creates(engine: SteppedEngine) -> int:
    total: int = engine.sim.calls()["endpoints"]["create"]["total"]
    return total


@pytest.mark.parametrize("reason", ["INSUFFICIENT_RESOURCE", "UNSUPPORTED_BILLING_MODE"])
async def test_spot_fallback_also_counts_when_the_create_call_refuses_spot(engine: SteppedEngine, reason: str) -> None:
    """The catalog offers spot for minutes after the last spot machine went; the same product is left on demand."""
    only_sell(engine, "4090.16c62g.os")
    engine.sim.set(spot_create=reason)
    instance_id = await engine.request_create(replace(REQUEST, spot_fallback=True))
    await engine.work()
    made = await engine.get(instance_id)

    assert made.phase is Phase.STARTING
    assert made.placement is not None
    assert made.placement.billing_mode is BillingMode.ON_DEMAND
    assert {(tried.product_id, tried.billing_mode) for tried in made.tried if tried.product_id is not None} == {
        (made.placement.product_id, BillingMode.SPOT)
    }


async def test_a_shortage_of_eight_gpus_does_not_keep_one_from_being_created(engine: SteppedEngine) -> None:
    """Three are left: enough for the second request."""
    wide = await engine.request_create(replace(REQUEST, gpu_num=8))
    sell_out(engine, 3)
    await engine.work()
    assert (await engine.get(wide)).phase is Phase.CREATING
    narrow = await engine.request_create()
    await engine.work()

    assert (await engine.get(narrow)).phase is Phase.STARTING
    assert (await engine.get(narrow)).create.number == 1


async def test_the_price_is_read_again_before_a_create_with_a_limit(engine: SteppedEngine) -> None:
    """The catalog that was remembered is older than the price."""
    first = await engine.request_create()
    await engine.work()
    paid = (await engine.get(first)).placement
    assert paid is not None
    limited = replace(REQUEST, max_micro_usd_per_gpu=paid.micro_usd)
    second = await engine.request_create(limited)
    raise_prices(engine)
    engine.clock.advance(3)
    await engine.work()
    refused = await engine.get(second)

    assert (refused.phase, refused.provider_id) == (Phase.CREATING, None)
    assert any("now costs" in tried.reason for tried in refused.tried)
    assert creates(engine) == 1


async def test_all_offers_short_waits_visibly_and_creates_once_one_is_left(engine: SteppedEngine) -> None:
    """The request was accepted: it is tried again, and the wait is published once."""
    instance_id = await engine.request_create()
    sell_out(engine)
    await engine.steps(30)
    waits = await engine.get(instance_id)
    assert waits.phase is Phase.CREATING
    assert waits.waiting is not None
    assert waits.waiting.code == "RESOURCE_CONSTRAINTS"
    assert waits.waiting.message.startswith("waiting for capacity")
    sell_out(engine, None)
    await engine.until(instance_id, Phase.READY, steps=200)

    assert await emitted(engine, instance_id) == [
        "created",
        "waiting",
        "starting",
        "running",
        "health_checking",
        "ready",
    ]
    assert creates(engine) <= 10, "the shortage is remembered; waiting costs few create calls"


async def test_an_offer_that_the_call_refused_is_tried_again_soon_after_it_is_in_stock(engine: SteppedEngine) -> None:
    """The catalog said all the time that it can be had: only a create call shows it."""
    engine.sim.set(spot_create="INSUFFICIENT_RESOURCE")
    instance_id = await engine.request_create()
    await engine.steps(3)
    refused = creates(engine)
    assert (await engine.get(instance_id)).waiting is not None
    engine.sim.set(spot_create="accepted")
    await engine.until(instance_id, Phase.READY, steps=35)

    assert creates(engine) == refused + 1


async def test_it_fails_at_the_deadline_with_what_it_waited_for(engine: SteppedEngine) -> None:
    """Not with a timeout without a reason."""
    instance_id = await engine.request_create(minutes=20)
    sell_out(engine)
    failed = await engine.until(instance_id, Phase.FAILED, steps=50, seconds=30)

    assert failed.failure is not None
    assert failed.failure.code == "RESOURCE_CONSTRAINTS"
    assert (failed.phase_since - failed.created_at).total_seconds() >= 1200


@pytest.mark.parametrize(("wait", "lasts"), [(0, 0), (600, 600)])
async def test_the_request_says_how_long_it_waits_for_capacity(engine: SteppedEngine, wait: int, lasts: int) -> None:
    """0 fails at once, and without an event that it waits."""
    instance_id = await engine.request_create(replace(REQUEST, wait_for_capacity_seconds=wait), minutes=20 + wait / 60)
    sell_out(engine)
    failed = await engine.until(instance_id, Phase.FAILED, steps=60, seconds=15)

    assert lasts <= (failed.phase_since - failed.created_at).total_seconds() <= lasts + 30
    assert await emitted(engine, instance_id) == (
        ["created", "failed"] if not wait else ["created", "waiting", "failed"]
    )


async def test_a_machine_found_after_a_wait_has_its_full_time_to_come_up(
    database: Database, target: DatabaseTarget
) -> None:
    """The wait is not taken from it."""
    async with stepped_engine(database, target, boot_seconds=600) as engine:
        instance_id = await engine.request_create(minutes=20)
        sell_out(engine)
        await engine.steps(30, seconds=30)
        sell_out(engine, None)
        await engine.until(instance_id, Phase.READY, steps=100, seconds=15)

        assert "timeout" not in await emitted(engine, instance_id)


async def passes(engine: SteppedEngine, instance_id: InstanceId, code: str) -> Instance:
    """Let a create meet its obstacle for a while; it must wait for it."""
    await engine.steps(10)
    waits = await engine.get(instance_id)
    assert waits.phase is Phase.CREATING
    assert waits.waiting is not None
    assert waits.waiting.code == code
    assert (await emitted(engine, instance_id))[-1] == "waiting"
    return waits


async def test_a_rejected_key_is_waited_for(engine: SteppedEngine) -> None:
    """It is put right by a person, or by the provider; what was accepted must not be lost meanwhile."""
    engine.sim.fault("unauthorized", on="create", count=None)
    instance_id = await engine.request_create()
    await passes(engine, instance_id, "AUTHENTICATION_FAILED")
    engine.sim.no_more_faults()
    await engine.until(instance_id, Phase.READY, steps=100)


async def test_an_account_that_cannot_pay_is_waited_for(database: Database, target: DatabaseTarget) -> None:
    """Until it is topped up."""
    async with stepped_engine(database, target, instance_limit=1) as engine:
        first = await engine.request_create()
        await engine.until(first, Phase.READY)
        instance_id = await engine.request_create()
        await passes(engine, instance_id, "INSUFFICIENT_BALANCE")
        engine.sim.set(instance_limit=0)
        await engine.until(instance_id, Phase.READY, steps=100)


async def test_an_empty_catalog_is_waited_for(engine: SteppedEngine) -> None:
    """The product was for sale when the request was accepted."""
    world = engine.sim.world
    full = world.catalog
    world.catalog = replace(full, products={})
    instance_id = await engine.request_create()
    await passes(engine, instance_id, "PRODUCT_NOT_FOUND")
    world.catalog = full
    await engine.until(instance_id, Phase.READY, steps=100)


async def test_a_create_that_is_not_carried_out_says_why_it_waits(engine: SteppedEngine) -> None:
    """The front of the provider refuses it: one event, the reason on the instance, and the pauses of an outage."""
    engine.sim.fault("html", on="create", count=None)
    instance_id = await engine.request_create()
    waits = await passes(engine, instance_id, "NOVITA_API_ERROR")
    assert waits.waiting is not None
    assert "HTTP 403" in waits.waiting.message
    assert creates(engine) == 4, "at 2, 8, 14 and 20 s: every 5 s, rounded up to a step"
    engine.sim.no_more_faults()
    engine.sim.fault("throttle", on="create", count=2)
    ready = await engine.until(instance_id, Phase.READY, steps=30)

    assert ready.waiting is None
    assert await emitted(engine, instance_id) == [
        "created",
        "waiting",
        "starting",
        "running",
        "health_checking",
        "ready",
    ]


async def test_a_create_without_readable_offers_says_why_it_waits(engine: SteppedEngine) -> None:
    """The call is not even sent, and the request was accepted all the same."""
    engine.sim.fault("error_500", on="products", count=None)
    instance_id = await engine.request_create()
    await passes(engine, instance_id, "NOVITA_API_ERROR")
    engine.sim.no_more_faults()
    await engine.until(instance_id, Phase.READY, steps=30)


async def test_a_create_that_was_never_carried_out_fails_with_the_reason(engine: SteppedEngine) -> None:
    """At its deadline, also when it had waited for capacity before."""
    instance_id = await engine.request_create(minutes=5)
    sell_out(engine)
    await engine.steps(3)
    sell_out(engine, None)
    engine.sim.fault("html", on="create", count=None)
    failed = await engine.until(instance_id, Phase.FAILED, steps=30, seconds=15)

    assert failed.failure is not None
    assert failed.failure.code == "NOVITA_API_ERROR"
    assert "HTTP 403" in failed.failure.message
    assert (failed.phase_since - failed.created_at).total_seconds() >= 300
    assert await emitted(engine, instance_id) == ["created", "waiting", "waiting", "failed"]


async def test_an_earlier_call_in_doubt_is_remembered_while_offers_cannot_be_read(engine: SteppedEngine) -> None:
    """Its machine may still appear, after the doubt was settled."""
    instance_id = await engine.request_create(replace(REQUEST, max_micro_usd_per_gpu=10_000_000))
    engine.sim.fault("error_500", on="create")
    await engine.work()
    assert (await engine.get(instance_id)).create_in_doubt
    engine.sim.fault("error_500", on="products", count=None)
    await engine.steps(40)
    waits = await passes(engine, instance_id, "NOVITA_API_ERROR")
    assert waits.create.number == 1
    engine.sim.no_more_faults()

    assert (await engine.until(instance_id, Phase.READY, steps=30)).given_up == (1,)


async def test_what_is_not_wanted_any_more_stops_waiting(engine: SteppedEngine) -> None:
    """Nothing was created, so nothing is looked for."""
    instance_id = await engine.request_create()
    sell_out(engine)
    await engine.steps(3)
    await engine.request_delete(instance_id)
    await engine.work()

    assert await engine.phase(instance_id) is Phase.TERMINATED


def raise_prices(engine: SteppedEngine) -> None:
    catalog = engine.sim.world.catalog
    dear = {
        key: replace(product, spot_e5=product.spot_e5 * 5, price_e5=product.price_e5 * 5)
        for key, product in catalog.products.items()
    }
    engine.sim.world.catalog = replace(catalog, products=dear)
