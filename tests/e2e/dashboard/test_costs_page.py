"""The costs page: with nothing billed, with a month of usage, on a phone, without TLS, and its files."""

from __future__ import annotations

import csv
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support.clock.waiting import until
from support.database.usage_rows import add_usage
from support.http.browser import OTHER_HOST, launched, opened_tab
from support.http.dashboard import axe_findings, is_too_wide, sign_in
from support.processes.process import Running, quicken, run, serving

from corral.base.clock import SystemClock
from corral.store.server.embedded import EmbeddedServer

# The first test may have to install a browser.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

PRODUCTS: Final = ("RTX 4090 24GB", "H100 SXM 80GB", "L40S 48GB", "A100", "B200", "T4", "V100", "<b>P100</b>")
HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A service, a browser to look at it, and the keys of a viewer and of an admin."""

    corral: Running
    browser: Browser
    data_dir: Path
    key: str
    admin: str

    async def add_month(self) -> None:
        """Usage of ten days of each of eight products, and two machines that are being deleted for an hour."""
        target = EmbeddedServer(self.data_dir, SystemClock()).running()
        assert target is not None
        connection = await asyncpg.connect(**target.arguments())
        now = datetime.now(UTC)  # noqa: TID251  # the service in its process has this clock, too
        for place, product in enumerate(PRODUCTS):
            labels = '{"team": "vision"}' if place % 2 else None
            for ago in range(1, 11):
                began = now - timedelta(days=ago)
                await add_usage(
                    connection, began, began + HOUR, product_name=product, labels=labels, quantity=8 - place
                )
        for machine in ("one", "two"):
            await add_usage(connection, now - HOUR, provider_id=machine, cause="deleting", confirmed_at=now)
        await connection.close()

    async def has_causes(self) -> bool:
        """Whether the forecast counts the usage that was added."""
        found = await self.corral.ask("GET", "/api/costs/forecast", headers={"X-API-Key": self.key})
        return bool(found.json["causes"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(short_dir: Path) -> AsyncGenerator[Site]:
    """A service that other machines can reach."""
    home = short_dir / "costs-page"
    home.mkdir()
    keys = [(await run("keys", "create", role, "--role", role, cwd=home))[1].strip() for role in ("viewer", "admin")]
    async with launched() as browser, serving(home / ".corral", "--host", "0.0.0.0", LOG_LEVEL="warning") as corral:
        await quicken(home / ".corral")
        corral.address = corral.address.replace("0.0.0.0", "127.0.0.1")
        yield Site(corral=corral, browser=browser, data_dir=home / ".corral", key=keys[0], admin=keys[1])


async def test_costs_are_shown_from_the_first_on(site: Site, tmp_path: Path) -> None:
    """Nothing is billed; then a month was, on a phone and from another machine without TLS."""
    await _see_the_first_costs(site)
    await _choose_and_export(site, tmp_path)


async def _see_the_first_costs(site: Site) -> None:
    """On a phone, in the dark; what is billed without use is said with its money."""
    async with opened_tab(site.browser, width=320, scheme="dark") as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/costs")
        await sign_in(page, site.key)
        await expect(page.locator("#past .body")).to_have_text("Nothing was billed.")
        await expect(page.locator("#leaks")).to_contain_text("Nothing: no machine is failed")
        await expect(page.locator("#forecast")).to_contain_text("$10,000.00")
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        await site.add_month()
        limit = {"scope": "all", "period": "total", "limitUsd": 400, "onLimit": "stop"}
        await site.corral.ask("PUT", "/api/budgets/gpus", json=limit, headers={"X-API-Key": site.admin})
        await until(site.has_causes)  # what was read for the page may be shown for another second
        await page.reload()
        await expect(page.locator(".budget")).to_contain_text("$362.")
        await expect(page.locator(".budget")).to_contain_text(
            "everything, in total; then machines are stopped; never resets"
        )
        await expect(page.locator(".budget .spent")).to_have_attribute("data-tone", "warn")
        await expect(page.locator("#leaks li")).to_have_text(
            _grown("$2.00", " on 2 machines being deleted, $2.00 per hour")
        )
        await expect(page.locator("#forecast")).to_contain_text("2 machines")
        await expect(page.locator("#past tbody tr")).to_have_count(8)  # six products, the others, and all
        await expect(page.locator("#past tbody tr").last).to_contain_text("exact to the cent")
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)
        assert [c for c in tab.complaints if "401" not in c] == []


async def _choose_and_export(site: Site, tmp_path: Path) -> None:
    """Names are no markup, the choice is in the address, and a file has the lines."""
    address = site.corral.address.replace("127.0.0.1", OTHER_HOST)
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(f"{address}/costs")
        await sign_in(page, site.key)
        assert await page.evaluate("isSecureContext") is False
        rows = page.locator("#past tbody tr")
        await expect(rows.nth(0)).to_contain_text("RTX 4090 24GB")
        await expect(rows.nth(6)).to_contain_text("2 others")
        await expect(rows.nth(7)).to_contain_text(_grown("$362.00"))
        assert await page.locator("#chart rect:not(.hint)").count() == 7 * 30

        await page.get_by_label("By").select_option("cause")
        await expect(rows).to_have_count(3)
        await expect(page.locator("#past th").first).to_have_text("cause")
        assert page.url.endswith("/costs?by=cause")
        await page.goto(f"{address}/costs?by=label:team")
        await expect(rows.filter(has_text="vision").locator("td").nth(3)).to_have_text("$160.00")
        await expect(rows.filter(has_text="(none)").locator("td").nth(3)).to_have_text(_grown("$202.00"))
        await expect(page.get_by_label("By")).to_have_value("label:team")

        async with page.expect_download() as started:
            await page.get_by_role("button", name="FOCUS").click()
        await (await started.value).save_as(tmp_path / "focus.csv")
        lines = list(csv.DictReader((tmp_path / "focus.csv").read_text().splitlines()))
        assert sum(float(line["BilledCost"]) for line in lines) == pytest.approx(362.0, abs=0.5)
        assert "<b>P100</b>" in {line["x_ProductName"] for line in lines}
        assert [c for c in tab.complaints if "401" not in c] == []


def _grown(cost: str, rest: str = "") -> re.Pattern[str]:
    """*cost* with what the two machines cost while the test runs: a cent in 18 seconds."""
    return re.compile(re.escape(cost[:-1]) + r"\d" + re.escape(rest))
