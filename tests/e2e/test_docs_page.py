"""`/docs` in a real browser: the viewer of another project, under our policy and with our document."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect
from support.clock.waiting import until
from support.http.browser import OTHER_HOST, launched, opened_tab
from support.http.dashboard import axe_findings
from support.processes.process import Running, run, serving

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

BACKGROUND = {"dark": "rgb(15, 15, 15)", "light": "rgb(255, 255, 255)"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncGenerator[Browser]:
    """One for all tests of this file; each opens a tab of its own."""
    async with launched() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keyed(short_dir: Path) -> AsyncGenerator[tuple[Running, str]]:
    """A service that other machines can reach, and a viewer's key."""
    home = short_dir / "docs"
    home.mkdir()
    key = (await run("keys", "create", "reader", "--role", "viewer", cwd=home))[1].strip()
    async with serving(home / ".corral", HOST="0.0.0.0", LOG_LEVEL="warning") as running:
        running.address = running.address.replace("0.0.0.0", OTHER_HOST)
        yield running, key


async def opened(page: Page, address: str) -> None:
    """The page at *address*, once the viewer shows the document."""
    await page.goto(address)
    await expect(page.get_by_role("heading", name="Create an instance")).to_be_visible()


async def test_the_page_is_searched_and_a_request_tried(keyed: tuple[Running, str], browser: Browser) -> None:
    """Nothing comes from another host or breaks the policy; the key of the dashboard is sent with what is tried,
    until it signs out.
    """
    corral, key = keyed
    async with opened_tab(browser) as tab:
        page, asked = tab.page, list[str]()
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(corral.address)
        await page.get_by_label("API key").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await opened(page, f"{corral.address}/docs")

        await page.get_by_role("button", name="Open Search").click()
        await page.get_by_role("combobox").fill("orphans")
        await page.get_by_role("option", name="/api/orphans").click()
        await expect(page.get_by_role("heading", name="List orphans and stuck instances")).to_be_in_viewport()

        await page.get_by_role("button", name="Test Request (get /api/orphans)").click()
        async with page.expect_response(lambda response: response.url == f"{corral.address}/api/orphans") as waited:
            await page.get_by_role("button", name="Send get request").click()
        answer = await waited.value
        assert (answer.status, set(await answer.json())) == (200, {"orphans", "stuck"})
        assert await answer.request.header_value("authorization") == f"Bearer {key}"

        async with page.expect_popup() as opening:
            await page.evaluate("void open('.')")
        other = await opening.value
        async with page.expect_event("load"):  # the page no longer has the key
            await other.get_by_role("button", name="Sign out").click()

        assert {url.split("/")[2] for url in asked} == {corral.address.removeprefix("http://")}
        assert [each for each in tab.complaints if "401" not in each] == []  # those before the sign-in


async def test_examples_are_in_curl_and_python_and_types_are_readable(
    keyed: tuple[Running, str], browser: Browser
) -> None:
    """As the document has them; no literal backtick, no unreadable number."""
    async with opened_tab(browser) as tab:
        page = tab.page
        await opened(page, f"{keyed[0].address}/docs")
        sample = page.get_by_role("button", name="Change code sample language: curl").first
        await expect(page.get_by_text('curl -X POST "$CORRAL_URL/api/instances"')).to_be_visible()
        await sample.click()
        await page.get_by_role("option", name="Python").click()
        await expect(page.get_by_text("from corral_client import Client").first).to_be_visible()

        text = await page.locator("#viewer").inner_text()
        assert "`" not in text
        assert "e+" not in text
        assert "Generate SDK" not in text


@pytest.mark.parametrize(("scheme", "widths"), [("light", [1280]), ("dark", [1280, 390])])
async def test_axe_finds_nothing_while_reading(
    keyed: tuple[Running, str], browser: Browser, scheme: str, widths: list[int]
) -> None:
    """In both colour schemes, which follow the system, and on a phone; while the viewer still draws, it finds more."""
    async with opened_tab(browser, scheme=scheme, width=widths[0]) as tab:
        await opened(tab.page, f"{keyed[0].address}/docs")
        found = ["not judged yet"]

        async def is_clean() -> bool:
            nonlocal found
            found = await axe_findings(tab.page)
            return not found

        for width in widths:
            await tab.page.set_viewport_size({"width": width, "height": 900})
            with contextlib.suppress(AssertionError):
                await until(is_clean, within=30)
            assert found == [], width
            assert await tab.page.evaluate("document.body.classList.contains('dark-mode')") is (scheme == "dark")
            assert await tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == BACKGROUND[scheme]


async def test_the_page_works_behind_a_path_prefix(keyed: tuple[Running, str], browser: Browser) -> None:
    """As behind a proxy that serves Corral under `/corral/`: every address begins with it."""
    address = keyed[0].address.replace(OTHER_HOST, "127.0.0.1")

    async def strip(route: Route) -> None:
        assert route.request.url.startswith(f"{address}/corral/")
        await route.fulfill(response=await route.fetch(url=route.request.url.replace("/corral/", "/", 1)))

    async with opened_tab(browser) as tab:
        await tab.page.route("**/*", strip)
        await opened(tab.page, f"{address}/corral/docs")
        await expect(tab.page.get_by_text(f"{address}/corral").first).to_be_visible()
        assert tab.complaints == []
