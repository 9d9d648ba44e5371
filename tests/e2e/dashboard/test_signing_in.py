"""Signing in and out, and what a role allows, on a service that needs a key."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import BrowserContext, Page, expect
from support.http.browser import PATIENCE_MS, launched
from support.http.dashboard import axe_findings, is_too_wide, sign_in
from support.processes.process import run, serving
from support.provider.upstream import Answering, upstream

# The first test may have to install a browser.
pytestmark = pytest.mark.timeout(400)

STORED = "Object.values(localStorage).concat(Object.values(sessionStorage), document.cookie).join()"


def _page(html: str) -> Answering:
    """Answers with a page of another site."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html")

    return answer


async def new_tab(context: BrowserContext, address: str) -> Page:
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(address)
    return page


async def test_a_key_is_given_once_and_its_role_is_shown(short_dir: Path) -> None:
    """A viewer sees all, and why it cannot act; a new tab does not ask; signing out is for all tabs."""
    home = short_dir / "signing-in"
    home.mkdir()
    keys = {
        name: (await run("keys", "create", name, "--role", role, cwd=home))[1].strip()
        for name, role in (("vera", "viewer"), ("olga", "operator"))
    }
    async with launched() as browser, serving(home / ".corral", "--host", "0.0.0.0") as corral:
        address = corral.address.replace("0.0.0.0", "127.0.0.1")
        context = await browser.new_context(viewport={"width": 320, "height": 700}, reduced_motion="reduce")
        page = await new_tab(context, address)
        await expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        await expect(page.locator("#key-wrong")).to_be_hidden()
        await page.get_by_label("API key", exact=True).fill("corral_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#key-wrong")).to_be_visible()

        await sign_in(page, keys["vera"])
        await expect(page.locator("#who")).to_have_text("vera viewer")
        button = page.get_by_role("button", name="New instance")
        await expect(button).to_have_attribute("aria-disabled", "true")
        reason = "This needs the role operator; the key “vera” has viewer."
        await expect(button).to_have_attribute("title", reason)
        await button.press("Enter")
        await expect(page.locator("#notice")).to_have_text(reason)
        await expect(page.locator("#create")).to_be_hidden()
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        other = await new_tab(context, address)
        await expect(other.locator("#who")).to_have_text("vera viewer")
        await other.get_by_role("button", name="Sign out").click()
        await expect(other.get_by_role("dialog", name="Sign in")).to_be_visible()
        await expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        assert keys["vera"] not in await page.evaluate(STORED)

        await sign_in(other, keys["olga"])
        for tab in (other, page):
            await expect(tab.locator("#who")).to_have_text("olga operator")
            await expect(tab.get_by_role("button", name="New instance")).not_to_have_attribute("aria-disabled", "true")
        assert not [line for line in corral.lines if any(key in line for key in keys.values())]
        await context.close()


async def test_without_keys_the_caller_is_local(short_dir: Path) -> None:
    """On this machine: no dialog, nothing to sign out of, everything allowed."""
    async with launched() as browser, serving(short_dir / "local-caller" / ".corral") as corral:
        context = await browser.new_context(reduced_motion="reduce")
        page = await new_tab(context, corral.address)
        await expect(page.locator("#who")).to_have_text("local admin")
        await expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
        await expect(page.get_by_role("button", name="New instance")).not_to_have_attribute("aria-disabled", "true")
        await context.close()


async def test_a_browser_that_a_proxy_signs_in_is_not_asked_for_a_key(short_dir: Path) -> None:
    """Name and role are shown, no other page can act in its name, and a proxy that refuses it later is named."""
    home = short_dir / "via-proxy"
    home.mkdir()
    proxy = {"AUTH_PROXY_HEADER": "Remote-User", "AUTH_PROXY_ADDRESSES": "127.0.0.1"}
    async with launched() as browser, serving(home / ".corral", **proxy) as corral:
        context = await browser.new_context(reduced_motion="reduce", extra_http_headers={"Remote-User": "vera"})
        page = await new_tab(context, corral.address)
        await expect(page.locator("#who")).to_have_text("vera viewer")
        await expect(page.locator("#link")).to_have_attribute("data-state", "live")
        await expect(page.get_by_role("dialog", name="Sign in")).to_be_hidden()
        await expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
        reason = "This needs the role operator; “vera” has viewer."
        await expect(page.get_by_role("button", name="New instance")).to_have_attribute("title", reason)

        url = f"{corral.address}/api/instances/inst_none/stop"
        async with upstream(_page(f"<form method=post action={url}><button>Win</button></form>")) as other:
            foreign = await new_tab(context, other)
            async with foreign.expect_response(url) as fetched:
                await foreign.evaluate("url => fetch(url, { method: 'POST', mode: 'no-cors' }).then(() => 0)", url)
            assert (await fetched.value).status == 403
            await foreign.get_by_role("button", name="Win").click()
            await expect(foreign.locator("body")).to_contain_text("a page of another origin may not act here")

        await context.set_extra_http_headers({})
        await page.evaluate(
            "import('/dashboard/shared/api.js').then(({ request }) => request('/api/whoami')).catch(() => 0)"
        )
        await expect(page.locator("#notice")).to_contain_text("reload the page to sign in again")
        await expect(page.get_by_role("dialog", name="Sign in")).to_be_hidden()
