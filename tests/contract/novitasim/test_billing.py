"""The provider's bill and balance, as a client reads them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from novitasim.server.clock import SteppedClock
from novitasim.testing import Simulated, start_simulator

HOUR, DAY = 3600, 86_400
KEY = {"Authorization": "Bearer k"}
BEGAN = int(SteppedClock.EPOCH)
PRODUCT = "4090.16c62g"


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator() as simulated:
        yield simulated


async def ask(sim: Simulated, path: str, **query: object) -> tuple[int, Any]:
    asked = {name: str(value) for name, value in query.items()}
    async with (
        ClientSession(sim.root_url, headers=KEY) as session,
        session.get(f"/openapi/v1/billing/{path}", params=asked) as response,
    ):
        return response.status, await response.json()


async def rows(sim: Simulated, **query: object) -> list[dict[str, Any]]:
    status, body = await ask(
        sim, "bill/list", **({"cycleType": "Hour", "productCategory": "gpu", "startTime": BEGAN} | query)
    )
    assert status == 200, body
    return list(body["bills"])


async def hour_of_one(sim: Simulated) -> str:
    """An instance whose first charged hour is on the bill: 3598 seconds."""
    instance_id = await sim.create()
    sim.advance(HOUR + 600)
    return instance_id


async def test_a_row_has_the_documented_fields_and_the_exact_amounts(sim: Simulated) -> None:
    begin = int(sim.now())
    instance_id = await hour_of_one(sim)

    assert await rows(sim) == [
        {
            "startTime": str(begin),
            "endTime": str(begin + HOUR - 1),
            "productName": "RTX 4090 24GB",
            "productId": PRODUCT,
            "category": "gpu",
            "ownerID": instance_id,
            "billNum0": "3598",
            "basePrice0": "35000",
            "discountPrice0": "35000",
            "pricePrecision": 5,
            "amount": "3498",
            "voucherAmount": "0",
            "payAmount": "3498",
            "amountDecimal": "3498.0555555556",
            "voucherAmountDecimal": "0",
            "payableDecimal": "3498.0555555556",
        }
    ]


async def test_each_guess_about_a_row_is_a_setting(sim: Simulated) -> None:
    begin = int(sim.now())
    await hour_of_one(sim)
    sim.set(
        bill_numbers="number", bill_end="exclusive", bill_rounding="up", bill_decimal_unit="usd", voucher_percent=50
    )

    (row,) = await rows(sim)

    assert (row["endTime"], row["amount"], row["payAmount"]) == (begin + HOUR, 3499, 1750)
    assert float(row["amountDecimal"]) == pytest.approx(0.34980556, abs=1e-8)
    sim.set(bill_decimals=False, bill_rounding="nearest")
    (row,) = await rows(sim)
    assert row["amount"] == 3498
    assert "amountDecimal" not in row


async def test_categories_owners_and_cycles_select_rows(sim: Simulated) -> None:
    first = await sim.create("a", rootfsSize=160)
    second = await sim.create("b")
    await sim.ask("/networkstorage/create", {"clusterId": "us-ca-6", "storageName": "s", "storageSize": 500})
    sim.advance(DAY + 600)

    assert {row["ownerID"] for row in await rows(sim)} == {first, second}
    assert {row["ownerID"] for row in await rows(sim, ownerId=first)} == {first}
    stored = await rows(sim, productCategory="cloud_storage")
    assert {row["productId"]: row["amount"] for row in stored} == {"rootfs": "4999", "network-storage": "10000"}
    (whole,) = await rows(sim, productCategory="summary", cycleType="Day")
    assert int(whole["amount"]) == pytest.approx(2 * 24 * 3500 + 4999 + 10_000, abs=5)
    sim.set(bill_owner_filter=False, bill_disk_category="gpu")
    assert {row["productId"] for row in await rows(sim, ownerId=second, cycleType="Day")} == {PRODUCT, "rootfs"}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"cycleType": "Decade"}, "INVALID_BILL_CYCLE"),
        ({"productCategory": "shoes"}, "INVALID_PRODUCT_CATEGORY"),
        ({"startTime": 0, "endTime": 31 * DAY + 1}, "VALIDATOR_PARAM"),
        ({"startTime": "soon"}, "VALIDATOR_PARAM"),
        ({"startTime": 5, "endTime": 4}, "VALIDATOR_PARAM"),
    ],
)
async def test_a_bad_question_is_refused_with_its_reason(sim: Simulated, query: dict[str, Any], reason: str) -> None:
    status, body = await ask(sim, "bill/list", **query)

    assert (status, body["reason"]) == (400, reason)


async def test_bill_calls_in_quick_succession_are_refused_and_other_calls_are_not(sim: Simulated) -> None:
    sim.set(bill_interval_seconds=10)

    statuses = [(await ask(sim, path))[0] for path in ("bill/list", "monthly/bill", "balance/detail")]
    _, refused = await ask(sim, "bill/monthly/list")
    sim.advance(10)

    assert statuses == [200, 429, 200]
    assert refused["reason"] == "LIST_BILL_TOO_FAST"
    assert (await ask(sim, "bill/list"))[0] == 200


async def test_rows_are_left_out_by_name_or_by_chance(sim: Simulated) -> None:
    await sim.create("kept")
    await sim.create("lost")
    sim.advance(DAY + 600)
    async with ClientSession(sim.root_url) as session:
        async with session.post("/_sim/bill", json={"name": "lost", "missing": True}) as response:
            assert await response.json() == {"instances": 1}
        async with session.post("/_sim/bill", json={"name": "("}) as response:
            assert response.status == 400

    assert len(await rows(sim)) == 24
    sim.set_billed("lost", missing=False)
    sim.set(bill_missing_percent=50)
    assert 12 < len(await rows(sim)) < 36


async def test_a_new_price_is_in_the_catalog_and_survives_a_restart(tmp_path: Path) -> None:
    async with start_simulator(state=tmp_path / "world") as sim:
        await sim.create()
        sim.advance(2 + HOUR)
        async with ClientSession(sim.root_url) as session:
            async with session.post("/_sim/price", json={"productId": PRODUCT, "price": 70_000}) as response:
                assert await response.json() == {"instances": 1}
            for bad in ({"productId": "none", "price": 1}, {"productId": PRODUCT, "price": 0}):
                async with session.post("/_sim/price", json=bad) as response:
                    assert response.status == 400
        sim.set_billed("worker", missing=True)

    async with start_simulator(state=tmp_path / "world") as sim:
        sim.advance(HOUR)
        _, products = await sim.ask("/products")
        assert {item["price"] for item in products["data"] if item["id"] == PRODUCT} == {"70000"}
        assert sim.ledger().bills[0].gpu_usd == pytest.approx(0.35 + 0.70)
        assert sim.world.unbilled


async def test_the_balance_separates_what_is_settled_from_what_is_pending(sim: Simulated) -> None:
    sim.set(balance_usd=10)
    await sim.create()
    sim.advance(2 + 1.5 * HOUR)

    _, body = await ask(sim, "balance/detail")

    settled = 10_000 * 0.35 * 3598 / 3600
    assert int(body["cashBalance"]) == round(100_000 - settled)
    assert int(body["availableBalance"]) == round(100_000 - 1.5 * 3500)
    assert int(body["cashBalance"]) - int(body["pendingCharges"]) == int(body["availableBalance"])


async def test_subscriptions_and_invoices_have_their_calls(sim: Simulated) -> None:
    monthly = await sim.create(billingMode="monthly", month=1)
    await sim.create()
    sim.advance(40 * DAY)

    _, subscriptions = await ask(sim, "bill/monthly/list")
    _, invoices = await ask(sim, "monthly/bill", startMonth="2026-10", page=1, pageSize=1)

    assert [(row["ownerID"], row["amount"]) for row in subscriptions["bills"]] == [(monthly, "2268000")]
    assert invoices["total"] == 2
    assert [(row["month"], row["status"]) for row in invoices["bills"]] == [("2026-11", "open")]
    assert (await ask(sim, "monthly/bill", startMonth="last"))[0] == 400
