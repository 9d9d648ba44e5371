"""The dashboard with a screen reader or without a mouse: judged by axe-core, and by the keyboard."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from support.http.browser import launched, opened_tab
from support.http.dashboard import axe_findings, choose
from support.processes.process import Running, quicken, run, serving

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

REQUEST = ("--product", "RTX 4090 24GB")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncGenerator[Browser]:
    """One for all tests of this file; each opens a tab of its own."""
    async with launched() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corral(short_dir: Path) -> AsyncGenerator[Running]:
    """A service with one machine that is ready and one that failed and says why."""
    data_dir = short_dir / "seen" / ".corral"
    async with serving(data_dir, LOG_LEVEL="warning") as running:
        await quicken(data_dir)
        for name, template, code in (("well", "107672", 0), ("broken", "150034", 5)):
            made = await run(
                *("create", name, *REQUEST, "--template", template, "--url", running.address), cwd=data_dir.parent
            )
            assert made[0] == code, made
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def unused(short_dir: Path) -> AsyncGenerator[Running]:
    """A service that was never asked for anything."""
    async with serving(short_dir / "unused" / ".corral") as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_axe_finds_nothing_on_a_page_with_rows(
    corral: Running, browser: Browser, width: int, scheme: str
) -> None:
    """Ready and failed rows, an open menu, charts and events; then both dialogs."""
    async with opened_tab(browser, width=width, scheme=scheme) as tab:
        page = tab.page
        await page.goto(corral.address)
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#rows tr")).to_have_count(2)
        await page.locator("#cost-chart .line").wait_for(state="attached")
        assert await axe_findings(page) == []
        await page.get_by_role("button", name="Actions for well").click()
        await page.get_by_role("menuitem", name="Copy ssh command").wait_for()
        assert await axe_findings(page) == []
        await page.keyboard.press("Escape")

        await page.get_by_role("button", name="New instance").click()
        await page.locator(".offers li").first.wait_for()
        assert await axe_findings(page) == []
        await page.keyboard.press("Escape")

        await choose(page, "Delete", "well")
        await expect(page.locator("#confirm")).to_be_visible()
        assert await axe_findings(page) == []
        assert tab.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_axe_finds_nothing_on_an_empty_page(unused: Running, browser: Browser, width: int, scheme: str) -> None:
    """The first thing a newcomer sees."""
    async with opened_tab(browser, width=width, scheme=scheme) as tab:
        await tab.page.goto(unused.address)
        await expect(tab.page.locator("#empty")).to_be_visible()
        await expect(tab.page.locator("#link")).to_have_text("live")

        assert await axe_findings(tab.page) == []
        await tab.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
        assert [c.split(":")[0] for c in await axe_findings(tab.page)] == ["button-name"]  # the judge is awake


async def test_everything_can_be_reached_and_left_by_keyboard(corral: Running, browser: Browser) -> None:
    """From the skip link to a row's buttons; a dialog keeps the focus inside and gives it back."""
    async with opened_tab(browser) as tab:
        page = tab.page
        await page.goto(corral.address)
        await expect(page.locator("#rows tr")).to_have_count(2)

        await page.keyboard.press("Tab")
        assert await focused(page) == "Skip to the instances"
        await page.keyboard.press("Enter")
        seen = []
        for _ in range(22):
            await page.keyboard.press("Tab")
            seen.append(await focused(page))
        assert {"Select all that match", "Name", "Select broken", "broken", "Actions for broken", "Select well"} <= set(
            seen
        )
        assert "Actions for well" in seen

        menu = page.get_by_role("button", name="Actions for well")
        await menu.focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("menuitem", name="Details")).to_be_focused()
        for _ in range(4):
            await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(page.locator("#confirm")).to_be_visible()
        assert await focused(page) == "Cancel"  # a careless Enter does no harm
        inside = []
        for _ in range(4):
            await page.keyboard.press("Tab")
            inside.append(await focused(page))
        assert "Delete" in inside
        assert not {"Actions for well", "New instance"} & set(inside)
        await page.keyboard.press("Escape")
        await expect(page.locator("#confirm")).to_be_hidden()
        await expect(menu).to_be_focused()

        chip = page.get_by_role("button", name="1 failed")
        await chip.focus()
        await page.keyboard.press("Space")
        await expect(page.locator("#rows tr")).to_have_count(1)
        await expect(chip).to_have_attribute("aria-pressed", "true")
        await expect(chip).to_be_focused()
        await page.keyboard.press("Space")
        await expect(page.locator("#rows tr")).to_have_count(2)


async def focused(page: Page) -> str:
    """The name of what has the focus."""
    name: str = await page.evaluate(
        "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"
    )
    return name
