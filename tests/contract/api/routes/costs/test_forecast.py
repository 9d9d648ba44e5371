"""What is billed now and where that leads, and the account, as callers see them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from support.clock.clocks import SteppedClock
from support.database.usage_rows import add_usage
from support.http.served_api_with_provider import staged

from corral.domain.costs.bill import Balance
from corral.engine.costs.account import BALANCE_SECONDS, AccountQueries
from corral.store.session.database import Database

HOUR = timedelta(hours=1)


async def test_what_is_billed_now_leads_to_the_cost_of_the_month(database: Database) -> None:
    """By cause, with the machines of each; a span that is over or that has not begun counts for neither."""
    async with staged(database) as served:
        served.api.env.clock.advance(36 * 3600)
        now = served.api.env.clock.now()  # in a month of 744 hours, of which 36 are over
        async with database.connection() as connection:
            for machine in ("a", "b"):
                await add_usage(connection, now - HOUR, provider_id=machine, cause="deleting", confirmed_at=now)
            await add_usage(connection, now - 2 * HOUR, provider_id="c", kind="disk", cause="stopped_disk",
                            unit_price=5000, quantity=48, confirmed_at=now - HOUR)  # fmt: skip
            await add_usage(connection, now - 4 * HOUR, now - 3 * HOUR, provider_id="over")
            await add_usage(connection, now, provider_id="unbegun", started_latest=None)
        for name, limit in (("day", 10), ("large", 90)):
            body = {"scope": "all", "period": "day", "limitUsd": limit}
            assert (await served.api.service.ask("PUT", f"/api/budgets/{name}", json=body)).status == 201
        forecast = (await served.api.get("/api/costs/forecast")).json

        assert [
            (each["cause"], each["machines"], each["usdPerHour"], each["soFar"]) for each in forecast["causes"]
        ] == [
            ("deleting", 2, 2.0, {"usd": 2.0, "low": 2.0, "high": 2.0}),
            ("stopped_disk", 1, 0.01, {"usd": 0.015, "low": 0.01, "high": 0.02}),
        ]
        assert forecast["usdPerHour"] == 2.01
        assert [(each["name"], each["usdPerHour"], each["runsOutAt"]) for each in forecast["budgets"]] == [
            ("day", 3.01, "2030-01-02T14:19:08.172Z"),
            ("large", 3.01, None),
        ]  # which count the one that may begin at any moment
        assert forecast["month"]["soFar"] == {"usd": 3.015, "low": 3.01, "high": 3.02}
        assert forecast["month"]["expected"]["usd"] == pytest.approx(3.015 + 2.01 * 708)
        assert (forecast["month"]["from"], forecast["month"]["to"]) == (
            "2030-01-01T00:00:00.000Z",
            "2030-02-01T00:00:00.000Z",
        )


async def test_the_account_says_how_long_its_money_lasts(database: Database) -> None:
    """The balance is the provider's, read once a minute; when it fails, that is said, and the rest is there."""
    async with staged(database) as served:
        served.sim.set(balance_usd=10)
        clock = served.api.env.clock
        at_rest = (await served.api.get("/api/account")).json
        async with database.connection() as connection:
            await add_usage(connection, clock.now(), quantity=2, confirmed_at=clock.now())
        clock.advance(2)
        running = (await served.api.get("/api/account")).json
        served.sim.fault("error_500", on="balance", count=10)
        cached = (await served.api.get("/api/account")).json
        clock.advance(BALANCE_SECONDS + 1)
        failed = (await served.api.get("/api/account")).json

        assert at_rest["balance"]["availableUsd"] == 10.0
        assert (at_rest["usdPerHour"], at_rest["runwayHours"], at_rest["runsOutAt"]) == (0.0, None, None)
        assert (running["usdPerHour"], running["runwayHours"]) == (2.0, 5.0)
        assert running["runsOutAt"] == "2030-01-01T05:00:02.000Z"
        assert cached["readAt"] == at_rest["readAt"] == "2030-01-01T00:00:00.000Z"
        assert (failed["balance"], failed["runwayHours"], failed["usdPerHour"]) == (None, None, 2.0)
        assert "500" in failed["problem"]


async def test_a_provider_that_does_not_answer_delays_no_response() -> None:
    """The call goes on, and a later request has its result."""
    answered = asyncio.Event()

    class Slow:
        async def balance(self) -> Balance:
            await answered.wait()
            return Balance(available_micro_usd=1_000_000)

    clock = SteppedClock(datetime(2030, 1, 1, tzinfo=UTC))
    account = AccountQueries(cast("Any", Slow()), clock, wait_seconds=0.01)
    first = await account.balance()
    answered.set()
    second = await account.balance()

    assert (first.balance, first.problem) == (None, "the provider has not answered yet")
    assert (second.balance, second.problem) == (Balance(available_micro_usd=1_000_000), None)
