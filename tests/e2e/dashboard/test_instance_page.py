"""The page of one instance, on a service that needs a key."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect
from support.http.browser import Tab, opened_tab
from support.http.dashboard import axe_findings, confirm, is_too_wide, sign_in, watched_service
from support.http.receiver import Receiver
from support.processes.process import Running, run

# The first test may have to install a browser.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

HOSTILE = "<img/src=x/onerror=document.title=1>"
LINES = "document.getElementById('log').childNodes.length"
MORE_LINES = f"""count => new Promise((done) => {{
  const look = () => ({LINES} > count ? done() : setTimeout(look, 50));
  look();
}})"""
HIDE = """([hidden]) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
PLOT = """async () => {
  const { pathOf, wordsOf } = await import("../dashboard/instance/plot.js");
  const points = [[0, 10], [60, 20], [300, 100]].map(([s, value]) => ({ at: new Date(s * 1000).toISOString(), value }));
  const times = { from: 0, to: 600000, gapMs: 150000 };
  return [pathOf(points, times), wordsOf(points, times), wordsOf([], times)];
}"""
PRODUCT = "RTX 4090 24GB"
BROKEN = "150034"
"""A template whose image cannot be pulled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A service, a browser to look at it, and the receiver of its webhooks."""

    corral: Running
    browser: Browser
    receiver: Receiver
    data_dir: Path
    key: str

    async def create(self, name: str, *, template: str = "107672", **fields: object) -> str:
        """The id of a new instance."""
        body = {"name": name, "productName": PRODUCT, "templateId": template, **fields}
        made = await self.corral.ask("POST", "/api/instances", json=body, headers={"X-API-Key": self.key})
        assert made.status == 201, made
        return str(made.json["instanceId"])

    async def sold_out(self) -> str:
        """The name of a product that is out of stock everywhere; no other test uses it."""
        found = await self.corral.ask("GET", "/api/products", headers={"X-API-Key": self.key})
        name = next(str(each["name"]) for each in found.json["products"] if each["name"] != PRODUCT)
        ids = {each["id"] for each in found.json["products"] if each["name"] == name}
        for place in await self.simulator("GET", "stock"):
            if place["productId"] in ids:
                emptied = {"productId": place["productId"], "clusterId": place["clusterId"], "gpus": 0}
                await self.simulator("POST", "stock", **emptied)
        return name

    async def simulator(self, method: str, call: str, **body: object) -> Any:
        """The result of a control call of the simulated provider."""
        address = f"{(self.data_dir / 'simulator' / 'address').read_text().strip()}/_sim/{call}"
        async with aiohttp.ClientSession() as client, client.request(method, address, json=body or None) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    @asynccontextmanager
    async def opened(self, instance_id: str, **options: Any) -> AsyncGenerator[Tab]:
        """The page of an instance, signed in."""
        async with opened_tab(self.browser, **options) as tab:
            await tab.page.goto(f"{self.corral.address}/instances/{instance_id}")
            await sign_in(tab.page, self.key)
            yield tab


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(short_dir: Path) -> AsyncGenerator[Site]:
    """One for all tests of this file."""
    home = short_dir / "instance-page"
    home.mkdir()
    key = (await run("keys", "create", "olga", "--role", "operator", cwd=home))[1].strip()
    async with watched_service(home / ".corral") as (corral, browser, receiver):
        yield Site(corral=corral, browser=browser, receiver=receiver, data_dir=home / ".corral", key=key)


async def test_a_ready_instance_is_shown_in_full_and_live(site: Site) -> None:
    """From its address alone, after the sign-in; actions show their effect without a reload."""
    instance_id = await site.create("trainer", webhookUrl=site.receiver.url)
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/instances/{instance_id}")
        await expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        assert await axe_findings(page) == []
        await sign_in(page, site.key)
        await page.evaluate("window.loadedOnce = true")

        await expect(page.get_by_role("heading", level=1)).to_have_text("trainer")
        await expect(page.locator("#status")).to_have_text("ready")
        await expect(page.locator("#money")).to_contain_text("$0.18/h")
        await expect(page.locator("#timeline li b")).to_have_text(
            ["creating", "starting", "running", "health checking", "ready"]
        )
        await expect(page.locator("#timeline li").first).to_contain_text(re.compile(r"\d m?s"))
        await expect(page.locator("#why")).to_contain_text("it stays ready until it is stopped")
        await expect(page.get_by_role("button", name="Copy the ssh command")).to_be_visible()
        await expect(page.get_by_role("link", name="Open the address of Jupyter")).to_be_visible()
        await expect(page.locator("#health")).to_contain_text("8888 http")
        await expect(page.locator("#placement")).to_contain_text("Taken: the cheapest in stock")
        await page.get_by_text("What the same request would get now").click()
        await expect(page.locator("#offers-body tbody tr").first).to_contain_text("First choice")
        await expect(page.locator("#operations li").first).to_contain_text("completed")
        await expect(page.locator("#about")).to_contain_text(instance_id)
        await page.get_by_text("As the API returns it").click()
        await expect(page.locator("#json pre")).to_contain_text(f'"id": "{instance_id}"')
        await _logins(page)
        duplicate = page.get_by_role("link", name="Duplicate")
        await expect(duplicate).to_have_attribute("href", f"/?duplicate={instance_id}#create")
        assert await axe_findings(page) == []
        await page.set_viewport_size({"width": 320, "height": 900})
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        await confirm(page, "Stop")
        await expect(page.locator("#status")).to_have_text("exited")
        await expect(page.locator("#money")).to_have_text("Not billed now")
        await expect(page.get_by_role("button", name="Copy the ssh command")).to_have_count(0)
        await expect(page.locator("#login")).to_be_hidden()
        await confirm(page, "Start")
        await expect(page.locator("#status")).to_have_text("ready")
        await expect(page.locator("#operations li")).to_have_count(3)
        assert await page.evaluate("window.loadedOnce") is True
        assert [c for c in tab.complaints if "401" not in c] == []


async def _logins(page: Page) -> None:
    """On demand, hidden again, in neither the address nor the storage of the browser."""
    address = page.url
    await page.get_by_role("button", name="Show logins").click()
    password = await page.locator("#logins div", has_text="SSH password").locator("code").inner_text()
    assert password
    assert await axe_findings(page) == []
    await page.get_by_role("button", name="Copy the ssh password").click()
    await expect(page.locator("#notice")).to_be_visible()
    assert password not in await page.locator("#notice").inner_text()
    kept = await page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state])")
    assert (page.url, password in kept) == (address, False)
    await page.get_by_role("button", name="Hide logins").click()
    assert password not in await page.content()


async def test_a_delivery_is_sent_again(site: Site) -> None:
    """The receiver gets it a second time, and the table counts the attempt."""
    instance_id = await site.create("sender", webhookUrl=site.receiver.url)
    async with site.opened(instance_id) as tab:
        row = tab.page.locator("#deliveries tbody tr", has_text="ready")
        await expect(row.locator('[data-label="Status"]')).to_have_text("delivered")
        before = len(site.receiver.messages)
        await row.get_by_role("button", name="Send ready to 127.0.0.1").click()
        await expect(row.locator('[data-label="Attempts"]')).to_have_text("2")
        assert len(site.receiver.messages) == before + 1


async def test_a_failed_instance_says_why_and_what_can_be_done(site: Site) -> None:
    """On a phone in the dark: the reason, the money, "Try again", and a delete that keeps the focus on the page."""
    instance_id = await site.create("broken", template=BROKEN)
    async with site.opened(instance_id, width=320, scheme="dark") as tab:
        page = tab.page
        await expect(page.locator("#status")).to_have_text("failed")
        await expect(page.locator("#why")).to_contain_text("PROVISIONING_FAILED")
        await expect(page.locator("#why")).to_contain_text("Next:")
        await expect(page.locator("#money")).to_have_text("Not billed now")  # its image was not pulled
        await expect(page.locator("#why")).to_contain_text("Money: it is not billed.")
        await page.route(f"**/api/instances/{instance_id}", _as_billed)
        await page.reload()
        billed = "Money: it still runs and costs $0.18/h until it is stopped or deleted."
        await expect(page.locator("#why")).to_contain_text(billed)
        await page.unroute_all()
        await page.reload()
        again = page.get_by_role("link", name="Try again")
        await expect(again).to_have_attribute("href", f"/?duplicate={instance_id}#create")
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        await confirm(page, "Delete")
        await expect(page.locator("#status")).to_have_text("terminated")
        await expect(page.locator("#connection")).to_contain_text("it is gone")
        await expect(page.get_by_role("button", name="Delete", exact=True)).to_have_count(0)
        assert await page.evaluate("document.activeElement.id") == "name"


async def test_an_instance_that_waits_says_what_for(site: Site) -> None:
    """No offer of its product is in stock: each is listed with the reason, and the wait is explained."""
    instance_id = await site.create("patient", productName=await site.sold_out(), waitForCapacity=600)
    async with site.opened(instance_id, width=320) as tab:
        page = tab.page
        await expect(page.locator("#status")).to_have_text("creating")
        await expect(page.locator("#why")).to_contain_text("Waits: waiting for capacity")
        await expect(page.locator("#money")).to_have_text("Not billed now")
        await expect(page.locator("#placement tbody tr")).not_to_have_count(0)
        await expect(page.locator("#connection")).to_contain_text("No address yet")
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)
        await confirm(page, "Delete")
        await expect(page.locator("#status")).to_have_text("terminated")


async def test_labels_are_shown_and_changed(site: Site) -> None:
    """An error is the API's; what was entered stays until it is right."""
    instance_id = await site.create("labelled", labels={"team": "vision"})
    async with site.opened(instance_id, width=390) as tab:
        page = tab.page
        await expect(page.locator("#labels li")).to_have_text(["team=vision"])
        await page.get_by_role("button", name="Change labels").click()
        await expect(page.get_by_label("Name of the label")).to_be_focused()
        await page.get_by_role("button", name="Add a label").click()
        await page.get_by_label("Name of the label").last.fill("Stage")
        await page.get_by_label("Value of the label").last.fill("<b>prod</b>")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#label-problem")).to_contain_text("labels")
        assert await axe_findings(page) == []
        await page.get_by_label("Name of the label").last.fill("stage")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#labels li")).to_have_text(["stage=<b>prod</b>", "team=vision"])
        await expect(page.get_by_role("button", name="Change labels")).to_be_focused()
        await page.get_by_role("button", name="Change labels").click()
        await page.get_by_role("button", name="Remove this label").first.click()
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#labels li")).to_have_text(["team=vision"])
        assert [c for c in tab.complaints if "400" not in c and "401" not in c] == []


async def test_a_viewer_sees_what_needs_another_role(site: Site) -> None:
    """The controls say why they do nothing, and nothing is sent for them."""
    instance_id = await site.create("seen")
    key = (await run("keys", "create", "vera", "--role", "viewer", cwd=site.data_dir.parent))[1].strip()
    async with opened_tab(site.browser) as tab:
        page, sent = tab.page, list[str]()
        page.on("request", lambda request: sent.append(request.url))
        await page.goto(f"{site.corral.address}/instances/{instance_id}")
        await sign_in(page, key)
        await expect(page.locator("#status")).to_have_text("ready")
        for name in ("Show logins", "Show the log", "Change labels"):
            button = page.get_by_role("button", name=name, exact=True)
            await expect(button).to_have_attribute("aria-disabled", "true")
            await expect(button).to_have_attribute("title", re.compile("This needs the role operator"))
            await button.click(force=True)
        await expect(page.locator("#notice")).to_contain_text("This needs the role operator")
        await expect(page.locator("#label-form")).to_be_hidden()
        assert [url for url in sent if re.search("/(credentials|logs|image-pull)(\\?|$)", url)] == []
        assert await axe_findings(page) == []


async def test_the_log_is_followed_paused_and_read_further_up(site: Site) -> None:
    """As text, whatever it says; a stream that ends says so, and is opened again on demand."""
    await site.simulator("POST", "settings", log_interval_seconds="0.2")
    instance_id = await site.create("talker", command=f"echo {HOSTILE}")
    async with site.opened(instance_id, scheme="dark") as tab:
        page = tab.page
        await expect(page.locator("#status")).to_have_text("ready")
        log, state = page.locator("#log"), page.locator("#log-state")
        await page.get_by_role("button", name="Show the log").click()
        await expect(state).to_have_text("Following.")
        await expect(log).to_contain_text(HOSTILE)
        assert await log.locator("*").count() == 0
        assert await axe_findings(page) == []
        await page.evaluate(MORE_LINES, 30)
        await log.evaluate("log => (log.scrollTop = 10)")
        before = await page.evaluate(LINES)
        await page.evaluate(MORE_LINES, before + 3)
        assert await log.evaluate("log => log.scrollTop") == 10

        await page.get_by_role("button", name="Pause").click()
        before = await page.evaluate(LINES)
        await expect(page.get_by_role("button", name=re.compile(r"Continue, \d+ new lines"))).to_be_visible()
        assert await page.evaluate(LINES) == before
        await page.get_by_role("button", name=re.compile("Continue")).click()
        await page.evaluate(MORE_LINES, before)
        await page.get_by_label("Wrap").uncheck()
        assert await log.evaluate("log => getComputedStyle(log).whiteSpace") == "pre"

        await page.evaluate(HIDE, [True])
        await expect(state).to_have_text("Stopped while this tab was hidden.")
        await page.evaluate(HIDE, [False])
        await expect(page.get_by_role("button", name="Reconnect")).to_be_visible()  # a reader further up is not moved
        await page.get_by_label("Follow").uncheck()
        await expect(state).to_contain_text("Read at")
        await page.locator("#log-source").select_option("the start")
        await expect(log).to_contain_text("Container started")
        assert [c for c in tab.complaints if "401" not in c] == []


async def test_a_log_without_end_does_not_fill_the_page(site: Site) -> None:
    """Two thousand lines are kept. One that breaks says so."""
    endless = await site.create("endless", env={"SIM_LOG": "endless"})
    async with site.opened(endless, width=320) as tab:
        page = tab.page
        await page.get_by_role("button", name="Show the log").click()
        await page.evaluate(MORE_LINES, 1999)
        await page.locator("#log").evaluate("log => log.lastChild.remove()")
        await page.evaluate(MORE_LINES, 1999)
        assert await page.evaluate(LINES) == 2000
        assert not await is_too_wide(page)
        await page.get_by_role("button", name="Stop reading").click()
        await expect(page.locator("#log-state")).to_have_text("Stopped.")

    cut = await site.create("cut", env={"SIM_LOG": "cut"})
    async with site.opened(cut) as tab:
        await tab.page.get_by_role("button", name="Show the log").click()
        await expect(tab.page.locator("#log-state")).to_contain_text("The stream ended at")
        await tab.page.get_by_role("button", name="Reconnect").click()
        await expect(tab.page.locator("#log-state")).to_contain_text("The stream ended at")


async def test_the_pull_of_an_image_shows_its_progress(site: Site) -> None:
    """On the page of the instance and on its card."""
    await site.simulator("POST", "settings", pull_seconds="600")
    instance_id = await site.create("puller")
    async with site.opened(instance_id) as tab:
        page = tab.page
        pulled = re.compile(r"Pulling the image: \d+ of \d+ layers")
        await expect(page.locator("#pull")).to_contain_text(pulled)
        await site.simulator("POST", "settings", pull_seconds="0.1")
        await expect(page.get_by_role("progressbar", name="Image pull")).to_be_visible()
        assert await axe_findings(page) == []
        await page.goto(site.corral.address)
        card = page.locator("#moving .card", has_text="puller")
        await expect(card.locator(".pull")).to_contain_text(pulled)
        assert await axe_findings(page) == []


async def test_use_is_plotted_with_its_gaps(site: Site) -> None:
    """In words too; the times can be chosen by keyboard. A new machine has no samples, so the answer is filled in."""
    instance_id = await site.create("busy", gpuNum=2)
    async with opened_tab(site.browser, width=390, scheme="dark") as tab:
        page = tab.page
        await page.route("**/metrics?minutes=60", _measured)
        await page.goto(f"{site.corral.address}/instances/{instance_id}")
        await sign_in(page, site.key)
        await expect(page.locator("#plots figure")).to_have_count(5)
        await expect(page.locator("#plots figure").first).to_contain_text("GPU 50% now, 50% on average, 50% to 50%")
        await expect(page.locator("#plots figure").first).to_contain_text("GPU 0: 90% now; GPU 1: 10% now")
        await expect(page.get_by_role("img", name="CPU: 7% now")).to_be_visible()
        await expect(page.get_by_role("img", name="Disk: no samples")).to_be_visible()
        await expect(page.locator("#plots .axis").first).to_contain_text("1 h ago")
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)
        assert await page.evaluate(PLOT) == [
            "M0.0,90.0h0L60.0,80.0M300.0,0.0h0",
            "100% last, 43% on average, 10% to 100%; no samples for 4 min 0 s",
            "no samples",
        ]
        async with page.expect_response("**/metrics?minutes=360") as answered:
            await page.get_by_label("1 h", exact=True).press("ArrowRight")
        assert (await answered.value).status == 200
        assert [c for c in tab.complaints if "401" not in c] == []


async def _measured(route: Route) -> None:
    """Answers as the service does, with three samples in each series but the disk's."""
    found = await route.fetch()
    if found.status != 200:
        await route.fulfill(response=found)
        return
    body = await found.json()
    end = datetime.fromisoformat(body["to"])
    times = [(end - timedelta(seconds=ago)).isoformat() for ago in (600, 75, 60)]
    samples = {value: [{"at": at, "value": value} for at in times] for value in (50, 30, 7, 90, 10)}
    assert {"gpu", "gpuMemory", "cpu", "memory", "disk", "gpus", "from", "intervalSeconds"} <= body.keys()
    gpus = [{"id": str(n), "gpu": samples[use], "gpuMemory": samples[30]} for n, use in enumerate((90, 10))]
    series = {"gpu": samples[50], "gpuMemory": samples[30], "cpu": samples[7], "memory": samples[30], "disk": []}
    await route.fulfill(json={**body, **series, "gpus": gpus})


async def test_an_unknown_id_gives_a_clear_page(site: Site) -> None:
    """With the API's words and a way on."""
    async with site.opened("inst_nope") as tab:
        await expect(tab.page.get_by_role("heading", level=1)).to_have_text("404: there is no such instance")
        await expect(tab.page.locator("#facts")).to_contain_text("INSTANCE_NOT_FOUND")
        await expect(tab.page.get_by_role("link", name="All instances")).to_have_attribute("href", "/")
        assert await axe_findings(tab.page) == []


async def test_an_error_is_shown_in_the_panel_that_it_belongs_to(site: Site) -> None:
    """In the API's words; the rest of the page is there."""
    instance_id = await site.create("partly")
    async with opened_tab(site.browser) as tab:
        await _refuse(tab.page, "**/api/webhooks/deliveries*")
        await tab.page.goto(f"{site.corral.address}/instances/{instance_id}")
        await sign_in(tab.page, site.key)
        await expect(tab.page.locator("#deliveries-panel .problem")).to_contain_text("the database cannot be reached")
        await expect(tab.page.locator("#status")).to_have_text("ready")
        assert await axe_findings(tab.page) == []


async def _as_billed(route: Route) -> None:
    answer = await route.fetch()
    await route.fulfill(response=answer, json={**await answer.json(), "billed": True, "price": 0.18})


async def _refuse(page: Page, pattern: str) -> None:
    body = '{"error": {"code": "STORE_UNAVAILABLE", "message": "the database cannot be reached"}}'
    await page.route(pattern, lambda route: route.fulfill(status=503, body=body, content_type="application/json"))
