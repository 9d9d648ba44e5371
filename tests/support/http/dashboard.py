"""Steps that tests of every page of the dashboard take."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from support.engines.outbox import SECRET
from support.http.browser import launched
from support.http.receiver import Receiver
from support.processes.process import Running, quicken, serving

AXE: Final = Axe().axe_script
JUDGE: Final = """async (options) => {
  const { passes, violations } = await axe.run(options);
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0].html.slice(0, 200)}`);
  return [passes.length, found];
}"""
OPTIONS: Final = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
"""Of the other results axe describes the first element alone; describing all of them takes most of its time."""


@asynccontextmanager
async def watched_service(data_dir: Path) -> AsyncGenerator[tuple[Running, Browser, Receiver]]:
    """A service that other machines can reach, with a quick provider; a browser, and a receiver for its webhooks."""
    settings = {"WEBHOOK_SECRET": SECRET, "CORRAL_WEBHOOK_ALLOW_PRIVATE": "true", "LOG_LEVEL": "warning"}
    async with (
        launched() as browser,
        Receiver().serving() as receiver,
        serving(data_dir, "--host", "0.0.0.0", **settings) as corral,
    ):
        await quicken(data_dir)
        corral.address = corral.address.replace("0.0.0.0", "127.0.0.1")
        yield corral, browser, receiver


async def axe_findings(page: Page) -> list[str]:
    """What axe-core objects to, each with the first element it means."""
    if await page.evaluate("typeof axe") == "undefined":
        await page.evaluate(AXE)
    passes, found = await page.evaluate(JUDGE, OPTIONS)
    assert passes, "nothing was looked at"
    return cast("list[str]", found)


async def is_too_wide(page: Page) -> bool:
    """Whether the page scrolls sideways."""
    wide: bool = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return wide


async def sign_in(page: Page, key: str) -> None:
    """Give *key* in the dialog that asks for it."""
    await page.get_by_label("API key", exact=True).fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("dialog", name="Sign in")).to_be_hidden()


async def confirm(page: Page, verb: str) -> None:
    """Press the button *verb* of the page, and the same in the dialog that asks for a confirmation."""
    await page.get_by_role("button", name=verb, exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=verb, exact=True).click()
    await expect(dialog).to_be_hidden()


async def choose(page: Page, verb: str, name: str) -> None:
    """Choose *verb* from the menu of the row of instance *name*."""
    await page.get_by_role("button", name=f"Actions for {name}", exact=True).click()
    await page.get_by_role("menuitem", name=verb, exact=True).click()


async def act(page: Page, verb: str, name: str) -> None:
    """Choose *verb* for instance *name*, and confirm."""
    await choose(page, verb, name)
    dialog = page.locator("#confirm")
    await expect(dialog).to_contain_text(name)
    await dialog.get_by_role("button", name=verb, exact=True).click()
    await expect(dialog).to_be_hidden()


async def create(page: Page, name: str) -> None:
    """Create an instance with the form, once its plan is shown."""
    await page.get_by_role("button", name="New instance").press("Enter")
    go = page.locator("#create-go")
    await expect(go).to_be_enabled()
    await page.get_by_label("Name", exact=True).fill(name)
    await expect(page.locator("#plan")).to_contain_text("$0.18")
    await expect(go).to_be_enabled()
    await go.click()
    await expect(page.locator("#create")).to_be_hidden()
