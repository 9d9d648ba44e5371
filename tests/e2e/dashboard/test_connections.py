"""Opening the dashboard from elsewhere: with a key, without TLS from another machine, and behind a path prefix."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, expect
from support.http.browser import OTHER_HOST, launched, opened_tab
from support.http.dashboard import act, axe_findings, create, sign_in
from support.processes.process import Running, quicken, run, serving

# The first test may have to install a browser.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

PREFIX = "/corral"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A service that other machines can reach, keys for it, and a browser."""

    corral: Running
    keys: dict[str, str]
    browser: Browser

    def address(self, host: str) -> str:
        return self.corral.address.replace("127.0.0.1", host)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(short_dir: Path) -> AsyncGenerator[Site]:
    """One for all tests of this file."""
    home = short_dir / "connections"
    home.mkdir()
    keys = {
        role: (await run("keys", "create", role, "--role", role, cwd=home))[1].strip()
        for role in ("viewer", "operator", "admin")
    }
    async with launched() as browser, serving(home / ".corral", "--host", "0.0.0.0") as corral:
        await quicken(home / ".corral")
        corral.address = corral.address.replace("0.0.0.0", "127.0.0.1")
        yield Site(corral=corral, keys=keys, browser=browser)


async def test_a_viewer_sees_everything_and_changes_nothing(site: Site) -> None:
    """What the role does not allow is disabled with the reason, in the menu and for a selection."""
    body = {"name": "seen", "productName": "RTX 4090 24GB", "templateId": "107672"}
    key = {"X-API-Key": site.keys["operator"]}
    assert (await site.corral.ask("POST", "/api/instances", json=body, headers=key)).status == 201
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(site.corral.address)
        await sign_in(page, site.keys["viewer"])
        row = page.locator("#rows tr", has_text="seen")
        await expect(row.locator(".badge")).to_have_text("ready")
        await expect(row).to_contain_text("operator")  # its owner
        await row.get_by_label("Select seen").check()
        await expect(page.locator("#bulk").get_by_role("button", name="Delete")).to_have_attribute(
            "aria-disabled", "true"
        )
        await page.get_by_role("button", name="Actions for seen").click()
        await page.get_by_role("menuitem", name="Delete").press("Enter")
        await expect(page.locator("#notice")).to_have_text("This needs the role operator; the key “viewer” has viewer.")
        await expect(page.locator("#confirm")).to_be_hidden()
        assert [c for c in tab.complaints if "401" not in c] == []


@pytest.mark.parametrize("host", ["address", "name"])
async def test_the_page_acts_when_opened_from_another_host_without_tls(site: Site, host: str) -> None:
    """Browsers withhold some functions from such pages (`crypto.randomUUID`, the clipboard); create and delete work."""
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(site.address(own_address() if host == "address" else OTHER_HOST))
        assert await page.evaluate("isSecureContext") is False
        await expect(page.locator("#unencrypted")).to_contain_text("not encrypted")
        await expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()  # without a key it says so
        await sign_in(page, site.keys["operator"])

        name = f"made-by-{host}"
        await create(page, name)
        row = page.locator("#rows tr", has_text=name)
        await expect(row.locator(".badge")).to_have_text("ready")
        for verb, status in (("Stop", "exited"), ("Start", "ready")):
            await act(page, verb, name)
            await expect(row.locator(".badge")).to_have_text(status)
        await page.get_by_role("button", name=f"Actions for {name}").click()
        await page.get_by_role("menuitem", name="Copy ssh command").click()
        await expect(page.locator("#notice")).to_contain_text("ssh ")  # no clipboard: the command itself is shown
        await act(page, "Delete", name)
        await expect(row).to_have_count(0)
        assert [c for c in tab.complaints if "401" not in c] == []
        await page.locator("#unencrypted a").click()
        await expect(page.get_by_role("heading", name="Use TLS")).to_be_visible()
        assert await axe_findings(page) == []


async def test_every_page_works_behind_a_path_prefix(site: Site) -> None:
    """A proxy that removes the prefix is enough: pages, scripts, requests, the stream and links need no setting."""
    async with prefixed(site.corral.address) as address, opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(f"{address}{PREFIX}/")
        await sign_in(page, site.keys["admin"])
        await expect(page.locator("#link")).to_have_text("live")
        await create(page, "behind-a-proxy")
        await expect(page.locator("#rows tr", has_text="behind-a-proxy").locator(".badge")).to_have_text("ready")
        await page.locator("#rows").get_by_role("link", name="behind-a-proxy").click()
        await expect(page.get_by_role("heading", name="behind-a-proxy")).to_be_visible()
        assert f"{PREFIX}/instances/" in page.url
        for text in await page.get_by_role("navigation").get_by_role("link").all_inner_texts():
            async with page.expect_navigation() as arrival:
                await page.get_by_role("navigation").get_by_role("link", name=text).click()
            answer = await arrival.value
            assert answer is not None
            assert (answer.status, PREFIX in answer.url) == (200, True), text
            await page.goto(f"{address}{PREFIX}/")
        assert [c for c in tab.complaints if "401" not in c] == []


def own_address() -> str:
    """An address of this machine that is not loopback, or else a name that browsers trust no more than one."""
    command = shutil.which("hostname")
    found = subprocess.run([command, "-I"], capture_output=True, text=True, check=False).stdout if command else ""
    return next((each for each in found.split() if each.count(".") == 3 and not each.startswith("127.")), OTHER_HOST)


@asynccontextmanager
async def prefixed(target: str) -> AsyncGenerator[str]:
    """A proxy in front of *target* that serves it below PREFIX and nothing else."""

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {**request.headers, "X-Forwarded-For": "192.0.2.7"}
        headers.pop("Host")
        async with client.request(
            request.method,
            target + request.path_qs.removeprefix(PREFIX),
            headers=headers,
            data=await request.read(),
            allow_redirects=False,
        ) as answer:
            hop = {"transfer-encoding", "connection", "content-length"}
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in hop}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            return response

    app = web.Application()
    app.router.add_route("*", PREFIX + "/{path:.*}", forward)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    async with aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)) as client:
        await runner.setup()
        listener = web.TCPSite(runner, "127.0.0.1", 0)
        await listener.start()
        try:
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()
