"""A real browser without a window, driven from a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from support.suite import debian

OTHER_HOST = "corral.test"
"""A name that the browser resolves to loopback but does not trust as it trusts loopback: as from another machine."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, where the sandbox refuses to start; only our own page is opened
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    f"--host-resolver-rules=MAP {OTHER_HOST} 127.0.0.1",
)
INSTALLED_WITHIN_SECONDS = 300
PATIENCE_MS = 30_000
"""How long anything on a page may take; the default of an assertion, 5 s, is too short for a busy machine."""


def found_browser() -> str:
    """A browser of this machine; installs one where that is easy, fails without one on CI, else skips."""
    browser = _on_path() or _installed()
    if browser is not None:
        return browser
    reason = f"no browser: none of {', '.join(NAMES)} is on PATH, and `apt-get install chromium` is not possible here"
    if os.environ.get("CI"):  # noqa: TID251  # a test's own question, not a setting
        pytest.fail(reason)
    pytest.skip(reason)


def _on_path() -> str | None:
    for name in NAMES:
        path = shutil.which(name)
        # Some systems have a stub by that name that only says how to install the real thing.
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    return None


def _installed() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    with debian.one_at_a_time():
        return _on_path() or _newly_installed()


def _newly_installed() -> str | None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}  # noqa: TID251  # as inherited
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]):
        try:
            subprocess.run(command, env=environment, capture_output=True, check=True, timeout=INSTALLED_WITHIN_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
    return _on_path()


@dataclass(kw_only=True)
class Tab:
    """A page, and what went wrong on it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors in the console, and uncaught exceptions."""


@asynccontextmanager
async def launched() -> AsyncGenerator[Browser]:
    """A browser, for all tabs that are opened meanwhile in the same event loop."""
    path = found_browser()
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened_tab(browser: Browser, *, width: int = 1280, scheme: str = "light") -> AsyncGenerator[Tab]:
    """
    An empty page that shares no storage with other pages.

    It asks for reduced motion: without a graphics card, an animation takes half of a core for as long as it is shown.
    """
    page = await browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    try:
        page.set_default_timeout(PATIENCE_MS)
        tab = Tab(page=page)

        def note(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                tab.complaints.append(message.text)

        page.on("console", note)
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        yield tab
    finally:
        await page.close()
