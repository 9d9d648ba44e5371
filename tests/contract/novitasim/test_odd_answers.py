"""Answers that differ from the documentation, as the settings say."""

from __future__ import annotations

import aiohttp
import pytest

from novitasim.settings import SettingError
from novitasim.testing import start_simulator


async def test_fields_can_be_missing_or_have_another_value() -> None:
    """At any depth, of one call only; refusals too."""
    async with start_simulator() as sim:
        machine = await sim.create("worker")
        sim.set(odd_answers='get.name=missing;get.state={"a":[1]};list.status=melting;get.reason="REQUEST"')
        _, got = await sim.ask("/gpu/instance", instanceId=machine)
        _, listed = await sim.ask("/gpu/instances", pageNum=0, pageSize=10)
        status, refused = await sim.ask("/gpu/instance", instanceId="none")

        assert "name" not in got
        assert got["statusError"]["state"] == {"a": [1]}
        assert (listed["instances"][0]["name"], listed["instances"][0]["status"]) == ("worker", "melting")
        assert (status, refused["reason"]) == (400, "REQUEST")
        with pytest.raises(SettingError, match=r"CALL\.FIELD=missing"):
            sim.set(odd_answers="no rule")


async def test_the_clock_and_a_rate_limit_are_in_the_headers() -> None:
    """The clock is the simulator's own, so that a stepped client agrees with it."""
    async with start_simulator(rate_limit_per_minute=50) as sim, aiohttp.ClientSession() as client:

        async def headers() -> tuple[str, str | None]:
            async with client.get(f"{sim.base_url}/v1/clusters") as response:
                return response.headers["Date"], response.headers.get("X-RateLimit-Limit")

        assert await headers() == ("Thu, 01 Oct 2026 00:00:00 GMT", None)
        sim.set(clock_ahead_seconds=90, rate_headers="limit")
        sim.advance(10)
        assert await headers() == ("Thu, 01 Oct 2026 00:01:40 GMT", "50")


async def test_filters_can_be_ignored() -> None:
    async with start_simulator() as sim:
        await sim.create("worker")

        async def found(**query: object) -> tuple[int, int, int]:
            _, listed = await sim.ask("/gpu/instances", pageNum=0, pageSize=10, status="exited")
            _, same = await sim.ask("/gpu/instances", pageNum=0, pageSize=10, status="toCreate")
            _, products = await sim.ask("/products", **query)
            return listed["total"], same["total"], len(products["data"])

        truthful = await found(billingMethod="spot", clusterId="us-ca-6")
        sim.set(status_filter="ignored", product_filters="ignored")
        ignored = await found(billingMethod="spot", clusterId="us-ca-6")
        sim.set(status_filter="nothing")
        nothing = await found()

    assert truthful[:2] == (0, 1)
    assert ignored[:2] == (1, 1)
    assert nothing[:2] == (0, 0)
    assert truthful[2] < ignored[2] == nothing[2]


async def test_a_refused_create_can_leave_a_machine_behind() -> None:
    async with start_simulator(refused_create="created") as sim:
        body = {"name": "x", "productId": "none", "gpuNum": 1, "rootfsSize": 10, "imageUrl": "i:1", "kind": "gpu"}
        status, _ = await sim.ask("/gpu/instance/create", body)
        left = sim.instances("^x$")

    assert status == 400
    assert [each.order.product_id for each in left] == ["3090.16c92g"]
