"""The operations page: every section with data, empty, refused and failing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect
from support.clock.waiting import until
from support.engines.outbox import SECRET
from support.http.browser import opened_tab
from support.http.dashboard import axe_findings, is_too_wide, sign_in, watched_service
from support.http.receiver import Receiver
from support.processes.process import Running, run

# The first test may have to install a browser.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

NEVER_HEALTHY: dict[str, Any] = {"templateId": "150033", "healthCheck": {"maxWaitTimeMs": 30_000}}
"""A machine that fails while it runs, and so is billed; the shortest wait that a request may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A service, a browser to look at it, and the receiver of its webhooks."""

    corral: Running
    browser: Browser
    receiver: Receiver
    data_dir: Path
    keys: dict[str, str]

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        """The body of a response to the admin."""
        answer = await self.corral.ask(method, path, headers={"X-API-Key": self.keys["admin"]}, **options)
        assert answer.status < 300, answer
        return answer.json

    async def create(self, name: str, *, status: str, **fields: Any) -> dict[str, Any]:
        """A new instance, once it has *status*."""
        body = {
            "name": name,
            "productName": "RTX 4090 24GB",
            "templateId": "107672",
            "webhookUrl": self.receiver.url,
            **fields,
        }
        path = f"/api/instances/{(await self.ask('POST', '/api/instances', json=body))['instanceId']}"

        async def is_there() -> bool:
            return bool((await self.ask("GET", path))["status"] == status)

        await until(is_there, within=60)
        found: dict[str, Any] = await self.ask("GET", path)
        return found

    async def add_orphan(self, name: str) -> None:
        """A machine under a name of this installation that no record accounts for."""
        address = (self.data_dir / "simulator" / "address").read_text().strip()
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{address}/_sim/state") as response:
                ours = (await response.json())["instances"][0]["name"].split("-")[1]
            order = {
                "name": f"corral-{ours}-inst-{name}-1",
                "productId": "4090.16c62g.os",
                "clusterId": "cn-hongkong-1",
                "gpuNum": 1,
                "rootfsSize": 60,
                "imageUrl": "docker.io/library/ubuntu:22.04",
                "kind": "gpu",
                "billingMode": "spot",
            }
            path = f"{address}/gpu-instance/openapi/v1/gpu/instance/create"
            async with client.post(path, json=order, headers={"authorization": "Bearer x"}) as response:
                assert response.status == 200, await response.text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(short_dir: Path) -> AsyncGenerator[Site]:
    """With two failed machines that are billed, and two orphans."""
    home = short_dir / "operations-page"
    home.mkdir()
    keys = {
        role: (await run("keys", "create", role, "--role", role, cwd=home))[1].strip() for role in ("viewer", "admin")
    }
    async with watched_service(home / ".corral") as (corral, browser, receiver):
        yield Site(corral=corral, browser=browser, receiver=receiver, data_dir=home / ".corral", keys=keys)


async def test_failed_machines_and_orphans_are_dealt_with(site: Site) -> None:
    """On a phone: signed out, with nothing to report, then each with its money and its actions after a confirmation."""
    async with opened_tab(site.browser, width=320, scheme="dark") as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/operations?instance=inst_none")
        await expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        assert await axe_findings(page) == []
        await sign_in(page, site.keys["admin"])
        attention = page.locator("#attention")
        await expect(attention).to_contain_text("Nothing: no failed instance is billed")
        await expect(_body(page, "deliveries")).to_have_text("None.")
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        await site.create("first", status="ready")
        await site.add_orphan("lost1")
        await site.add_orphan("lost2")
        failed = await asyncio.gather(
            *(site.create(name, status="failed", **NEVER_HEALTHY) for name in ("broken", "broken-too"))
        )
        assert [each["billed"] for each in failed] == [True, True]
        await expect(attention.get_by_role("heading", name="Failed and still billed (2)")).to_be_visible()
        await expect(attention).to_contain_text("Together $0.36/h")
        link = attention.get_by_role("link", name="broken", exact=True)
        await expect(link).to_have_attribute("href", f"/instances/{failed[0]['id']}")
        await expect(attention.get_by_role("heading", name="Orphans (2)")).to_be_visible()
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        orphans = {each["name"].split("-")[3]: each for each in (await site.ask("GET", "/api/orphans"))["orphans"]}
        await _act(page, f"Adopt {orphans['lost1']['novitaInstanceId']}", "Adopt")
        await expect(attention.get_by_role("heading", name="Orphans (1)")).to_be_visible()
        await _act(page, f"Delete {orphans['lost2']['novitaInstanceId']}", "Delete")
        await expect(attention.get_by_role("heading", name="Orphans")).to_have_count(0)
        adopted = await site.ask("GET", f"/api/instances/{orphans['lost1']['novitaInstanceId']}")
        deleted = await site.ask("GET", f"/api/instances/{orphans['lost2']['novitaInstanceId']}")
        assert adopted["status"] not in {"deleting", "terminated"}
        assert deleted["status"] in {"deleting", "terminated"}

        for left, name in enumerate(["broken", "broken-too"]):
            await expect(attention.get_by_role("heading", name=f"Failed and still billed ({2 - left})")).to_be_visible()
            await _act(page, f"Delete {name}", "Delete")
        await expect(attention).to_contain_text("Nothing: no failed instance is billed")
        assert await page.evaluate("document.activeElement.id") == "attention-title"  # its button is gone
        assert [c for c in tab.complaints if "401" not in c] == []


async def test_deliveries_jobs_caches_and_the_audit_log_are_shown_and_changed(site: Site) -> None:
    """In the dark on a desktop."""
    made = await site.create("busy", status="ready")
    async with opened_tab(site.browser, scheme="dark") as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/operations?instance={made['id']}#deliveries")
        await sign_in(page, site.keys["admin"])

        rows = page.locator("#deliveries tbody tr")
        ready = rows.filter(has_text="ready")
        await expect(ready.locator('[data-label="Status"]')).to_have_text("delivered")
        await expect(page.locator('#deliveries td[data-label="Instance"]').first).to_have_text(made["id"])
        await ready.get_by_role("button").click()
        await expect(ready.locator('[data-label="Attempts"]')).to_have_text("2")
        await page.get_by_label("Status").select_option("failed")
        await expect(_body(page, "deliveries")).to_have_text("None.")

        await _act(page, "Pause the jobs", "Pause")
        await expect(_body(page, "jobs")).to_contain_text("Paused by admin")
        await expect(page.get_by_text("Jobs are paused by admin")).to_be_visible()
        await _act(page, "Resume the jobs", "Resume")
        await expect(_body(page, "jobs")).to_contain_text("Jobs are processed.")

        await page.locator("#caches summary").click()
        await _act(page, "Clear the cache products", "Clear")
        await expect(page.locator("#caches details")).to_have_attribute("open", "")
        await expect(_body(page, "numbers")).to_contain_text("Readiness lag")

        audit = page.locator("#audit tbody tr")
        await expect(audit.first).to_contain_text("/api/cache/clear")
        await page.locator("#audit").get_by_label("Instance").fill(made["id"])
        await page.keyboard.press("Tab")
        await expect(audit).to_have_count(2)
        await expect(audit.first).to_contain_text("redeliver")
        await expect(audit.last).to_contain_text("201")
        assert await axe_findings(page) == []
        assert [c for c in tab.complaints if "401" not in c] == []


async def test_the_audit_log_is_read_page_by_page(site: Site) -> None:
    """To its start and back."""
    for _ in range(25):
        await site.ask("POST", "/api/cache/cleanup")
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/operations")
        await sign_in(page, site.keys["admin"])
        audit = page.locator("#audit tbody tr")
        await expect(audit).to_have_count(25)
        while await page.get_by_role("button", name="Older lines").count():
            before = await audit.first.text_content()
            await page.get_by_role("button", name="Older lines").click()
            await expect(audit.first).not_to_have_text(before or "")
        await expect(audit.last).to_contain_text("command line")
        await page.get_by_role("button", name="Newer lines").click()
        await expect(audit).to_have_count(25)


async def test_a_key_is_created_shown_once_and_revoked(site: Site) -> None:
    """The secret admits a caller until the key is revoked, and is gone from the page after a reload."""
    async with opened_tab(site.browser, width=320) as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/operations")
        await sign_in(page, site.keys["admin"])
        keys = page.locator("#keys")
        await keys.get_by_label("Name").fill("admin")
        await keys.get_by_role("button", name="Create key").click()
        await expect(keys.locator("#new-key-problem")).to_contain_text("there is a key named 'admin'")
        await keys.get_by_label("Name").fill("ci")
        await keys.get_by_label("Role").select_option("operator")
        await keys.get_by_role("button", name="Create key").click()
        await expect(keys.locator("#new-key-secret")).to_contain_text("The operator key of ci: shown this once")
        await expect(keys.locator("#new-key-problem")).to_be_hidden()
        secret = {"X-API-Key": await keys.locator("#new-key-secret code").text_content() or ""}
        row = keys.locator("tbody tr", has_text="ci")
        await expect(row).to_contain_text("never")
        assert (await site.corral.ask("GET", "/api/instances", headers=secret)).status == 200
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        await _act(page, "Revoke ci", "Revoke")
        await expect(row).to_contain_text("revoked")
        assert (await site.corral.ask("GET", "/api/instances", headers=secret)).status == 401
        await expect(page.locator("#audit tbody tr").first).to_contain_text("DELETE")


async def test_the_settings_in_force_are_listed(site: Site) -> None:
    """Those that differ from their default first; secrets are masked."""
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/operations")
        await sign_in(page, site.keys["admin"])
        changed = page.get_by_role("table", name="Settings that differ from their default")
        await expect(changed.locator("tr", has_text="LOG_LEVEL")).to_contain_text("warning")
        await expect(changed.locator("tr", has_text="WEBHOOK_SECRET")).not_to_contain_text(SECRET)
        await page.get_by_text("With their default").click()
        await expect(page.get_by_role("table", name="Settings with their default")).to_contain_text(
            "INSTANCE_POLL_INTERVAL"
        )
        assert await axe_findings(page) == []


async def test_a_section_that_the_role_may_not_read_says_so(site: Site) -> None:
    """A viewer sees the rest, and a button that needs another role is disabled with the reason."""
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/operations")
        await sign_in(page, site.keys["viewer"])
        for section in ("audit", "keys", "settings"):
            await expect(page.locator(f"#{section} .refusal")).to_contain_text("this needs the role admin")
            await expect(page.locator(f"#{section} .body")).to_be_empty()  # no longer "Loading…"
        await expect(_body(page, "jobs")).to_contain_text("Jobs are processed.")
        pause = page.get_by_role("button", name="Pause the jobs")
        await expect(pause).to_have_attribute("aria-disabled", "true")
        await pause.click(force=True)  # it can be reached by keyboard, and says why it does nothing
        await expect(page.locator("#notice")).to_contain_text("This needs the role admin")
        await expect(page.locator("#ask")).to_be_hidden()
        assert await axe_findings(page) == []


async def test_an_error_stays_in_its_section(site: Site) -> None:
    """In the API's words; the other sections are there."""
    body = json.dumps({"error": {"code": "STORE_UNAVAILABLE", "message": "the database cannot be reached"}})
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.route(
            "**/api/jobs?*", lambda route: route.fulfill(status=503, body=body, content_type="application/json")
        )
        await page.goto(f"{site.corral.address}/operations")
        await sign_in(page, site.keys["admin"])
        await expect(page.locator("#jobs .problem")).to_contain_text("the database cannot be reached")
        await expect(_body(page, "numbers")).to_contain_text("Readiness lag")
        assert await axe_findings(page) == []


async def test_a_stuck_instance_is_reported_with_what_is_done(site: Site) -> None:
    """Answered for the API: it takes ten minutes until an instance counts as stuck."""
    stuck = {
        "instanceId": "inst_slow",
        "status": "deleting",
        "since": "2030-01-01T00:00:00.000Z",
        "reason": "deleting for more than 10 minutes",
        "nextStep": "a delete is sent at most 4 minutes apart",
    }
    body = json.dumps({"orphans": [], "stuck": [stuck]})
    async with opened_tab(site.browser, width=320) as tab:
        page = tab.page
        await page.route("**/api/orphans", lambda route: route.fulfill(body=body, content_type="application/json"))
        await page.goto(f"{site.corral.address}/operations")
        await sign_in(page, site.keys["admin"])
        row = page.get_by_role("table", name="Stuck").locator("tbody tr")
        await expect(row).to_contain_text("deleting for more than 10 minutes")
        await expect(row).to_contain_text("a delete is sent at most 4 minutes apart")
        await expect(row.get_by_role("link")).to_have_attribute("href", "/instances/inst_slow")
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)


def _body(page: Page, section: str) -> Locator:
    return page.locator(f"#{section} .body")


async def _act(page: Page, name: str, verb: str) -> None:
    """Press the button *name*, then *verb* in the dialog that asks."""
    await page.get_by_role("button", name=name, exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=verb, exact=True).click()
    await expect(dialog).to_be_hidden()
