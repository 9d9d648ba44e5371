"""The fleet page as a person uses it: a real browser on the real service with the simulated provider."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from support.http.browser import launched, opened_tab
from support.http.dashboard import act, choose, create
from support.http.servers import unused_port
from support.processes.process import quicken, serving

# The first test may have to install a browser.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

NOTHING_PERIODIC = "window.setInterval = () => 0;"
"""Takes every periodic read away, so that what is seen to change can only have come by the stream."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncGenerator[Browser]:
    """One for all tests of this file; each opens a tab of its own."""
    async with launched() as started:
        yield started


async def test_an_instance_is_made_watched_and_deleted_on_one_page(short_dir: Path, browser: Browser) -> None:
    """Without a reload, by keyboard where it matters, and across a restart of the service."""
    data_dir, port = short_dir / "dashboard" / ".corral", f"--port={unused_port()}"
    async with opened_tab(browser) as tab:
        page = tab.page
        await page.add_init_script(NOTHING_PERIODIC)
        async with serving(data_dir, port=port) as corral:
            await page.goto(corral.address)
            await page.evaluate("window.loadedOnce = true")
            await expect(page.locator("#link")).to_have_text("live")
            await expect(page.locator("#simulator")).to_be_visible()
            await expect(page.locator("#unencrypted")).to_have_count(0)
            await expect(page.locator("#empty")).to_be_visible()

            await create(page, "made-here")
            card = page.locator("#moving .card", has_text="made-here")
            await expect(card.locator(".track li")).to_have_count(5)
            row = page.locator("#rows tr", has_text="made-here")
            await expect(row.locator(".badge")).to_have_text("ready")
            await expect(card).to_have_count(0)
            await expect(row).to_contain_text("$0.18")
            await expect(row.get_by_role("link", name="made-here")).to_have_attribute("href", re.compile("/instances/"))
            await page.get_by_role("button", name="Actions for made-here").press("Enter")
            for item in ("Details", "Restart", "Stop", "Delete", "Copy ssh command", "Open Jupyter"):
                await expect(page.get_by_role("menuitem", name=item)).to_be_visible()
            await page.keyboard.press("End")
            await page.keyboard.press("ArrowDown")
            await expect(page.get_by_role("menuitem", name="Details")).to_be_focused()
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("button", name="Actions for made-here")).to_be_focused()
            assert tab.complaints == []

        await expect(page.locator("#link")).to_contain_text("reconnecting, last update")
        async with serving(data_dir, port=port):
            await expect(page.locator("#link")).to_have_text("live")
            await choose(page, "Delete", "made-here")
            await page.keyboard.press("Enter")  # "Cancel" has the focus: a careless Enter deletes nothing
            await expect(page.locator("#confirm")).to_be_hidden()
            await expect(page.get_by_role("button", name="Actions for made-here")).to_be_focused()
            await act(page, "Delete", "made-here")
            await expect(row).to_have_count(0)
            await expect(page.locator("#feed li").first).to_contain_text("terminated")
            await expect(page.locator("#empty")).to_be_visible()
            await expect(page.locator("#find")).to_be_focused()  # the row that had the focus is gone
            await page.get_by_label("All", exact=True).check()
            await expect(row.locator(".badge")).to_have_text("terminated")

        assert await page.evaluate("window.loadedOnce") is True
        assert [c for c in tab.complaints if "Failed to load resource" not in c] == []


async def test_an_instance_rests_and_wakes_on_the_page(short_dir: Path, browser: Browser) -> None:
    """Only actions that fit the status are offered, each asks first; a stopped one shows no price."""
    data_dir = short_dir / "resting" / ".corral"
    async with serving(data_dir) as corral, opened_tab(browser) as tab:
        page = tab.page
        await quicken(data_dir)
        await page.goto(corral.address)
        await create(page, "rest")
        row = page.locator("#rows tr", has_text="rest")
        badge = row.locator(".badge")
        await expect(badge).to_have_text("ready")
        await _offers(page, "rest", "Restart", "Stop", "Delete")

        await act(page, "Stop", "rest")
        await expect(badge).to_have_text("exited")
        await expect(row).not_to_contain_text("$")
        await _offers(page, "rest", "Start", "Delete")

        await act(page, "Start", "rest")
        await expect(badge).to_have_text("ready")
        await act(page, "Restart", "rest")
        await expect(page.locator("#feed li", has_text="restarting")).not_to_have_count(0)
        await expect(badge).to_have_text("ready")
        lines = [" ".join(text.split()) for text in await page.locator("#feed li").all_inner_texts()]
        assert [two for two in pairwise(lines) if two[0] == two[1]] == []
        assert tab.complaints == []


async def _offers(page: Page, name: str, *verbs: str) -> None:
    """The menu's commands are these and no others."""
    await page.get_by_role("button", name=f"Actions for {name}").click()
    found = [text for text in await page.get_by_role("menuitem").all_inner_texts() if " " not in text]
    assert found[: len(verbs) + 2] == ["Details", "Duplicate", *verbs]
    await page.keyboard.press("Escape")
