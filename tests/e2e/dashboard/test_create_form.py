"""The form for new instances: every error under its field, the price before the press, and copies."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect
from support.http.browser import launched, opened_tab
from support.http.dashboard import axe_findings, is_too_wide
from support.processes.process import Running, quicken, run, serving

# The first test may have to install a browser.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

SECRET = "hf_never_shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A service, and a browser to look at it."""

    corral: Running
    browser: Browser
    home: Path

    async def instances(self) -> dict[str, dict[str, Any]]:
        listed = (await self.corral.ask("GET", "/api/instances")).json["instances"]
        return {one["name"]: one for one in listed}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(short_dir: Path) -> AsyncGenerator[Site]:
    """One for all tests of this file."""
    home = short_dir / "create-form"
    async with launched() as browser, serving(home / ".corral", LOG_LEVEL="warning") as corral:
        await quicken(home / ".corral")
        yield Site(corral=corral, browser=browser, home=home)


async def opened_form(page: Page, site: Site) -> None:
    await page.goto(site.corral.address)
    await page.get_by_role("button", name="New instance").click()
    await expect(page.locator("#create-go")).to_be_enabled()


async def errors(page: Page) -> dict[str, str]:
    """What is shown under each field."""
    shown = "all => Object.fromEntries(all.map(each => [each.parentElement.dataset.field, each.textContent]))"
    found: dict[str, str] = await page.locator(".field-error:visible").evaluate_all(shown)
    return found


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
async def test_every_error_is_under_its_field(site: Site, width: int, scheme: str) -> None:
    """All at once and in the words of the API, also those of fields that are folded away."""
    async with opened_tab(site.browser, width=width, scheme=scheme) as tab:
        page = tab.page
        await opened_form(page, site)
        assert await axe_findings(page) == []
        for name, value in (("Name", "two words"), ("GPUs", "9"), ("Count", "21"), ("Maximum duration", "long")):
            await page.get_by_label(name, exact=True).fill(value)
        async with _unfolded(page, "Schedule, and what"):
            await page.get_by_label("Stop at, as cron").fill("at eight")
        async with _unfolded(page, "Regions, price limit"):
            await page.get_by_label("Webhook").fill("http://127.0.0.1/")
            await page.get_by_label("Health check: path").fill("no slash")
        await _wrong_container(page)
        await page.get_by_label("Name", exact=True).fill("three more words")  # all is folded when its answer arrives
        await expect(page.locator("#error-webhookUrl")).to_be_visible()  # it unfolds what has an error
        await expect(page.locator("#error-ports")).to_be_visible()

        found = await errors(page)
        wrong = {"image", "minCuda", "ports", "env", "secrets", "volumes", "labels"}
        lease = {"lease.maxDuration", "lease.schedule.stop"}
        assert set(found) == {"name", "gpuNum", "count", "webhookUrl", "healthPath", *wrong, *lease}
        assert found["env"] == "has MODE twice"
        assert found["secrets"] == "needs the value of TOKEN, which is kept nowhere"
        assert found["gpuNum"] == "must be a whole number between 1 and 8"
        await expect(page.get_by_label("GPUs")).to_have_attribute("aria-invalid", "true")
        await expect(page.locator("#create-go")).to_be_disabled()
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)

        await page.get_by_label("GPUs").fill("2")
        await expect(page.locator("#error-gpuNum")).to_be_hidden()
        assert [c for c in tab.complaints if "400" not in c] == []


@asynccontextmanager
async def _unfolded(page: Page, title: str) -> AsyncGenerator[None]:
    """The part of the form with that *title*, folded away in the end. The page itself unfolds what has an error."""
    part = page.locator("details").filter(has=page.locator("summary", has_text=title)).last
    await part.evaluate("part => { part.open = true; }")
    yield
    await part.evaluate("part => { part.open = false; }")


async def _wrong_container(page: Page) -> None:
    """Nothing right in what the machine is to run."""
    async with _unfolded(page, "Image, command, environment"):
        for name, value in (("Image", "two words"), ("Ports", "22/tcp 22/http"), ("Lowest CUDA version", "new")):
            await page.get_by_label(name, exact=True).fill(value)
        await _add(page, "variable", "MODE", "train")
        await _add(page, "variable", "MODE", "serve")
        await _add(page, "secret", "TOKEN", "")
        await _add(page, "label", "Team", "vision")
        await page.get_by_role("button", name="Add a volume").click()


async def _add(page: Page, noun: str, name: str, value: str) -> None:
    await page.get_by_role("button", name=f"Add a {noun}").click()
    await page.get_by_label(f"Name of the {noun}").last.fill(name)
    await page.get_by_label(f"Value of the {noun}").last.fill(value)


async def test_prices_follow_the_billing_mode_and_the_button_says_what_it_costs(site: Site) -> None:
    """Also for several, whose names are numbered; each is made once."""
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await opened_form(page, site)
        go = page.locator("#create-go")
        await expect(go).to_have_text("Create for $0.18/h")
        await expect(page.locator("[name=productName]")).to_contain_text("RTX 4090 24GB, from $0.18/h per GPU")
        await page.get_by_label("Billing").select_option("onDemand")
        await expect(go).to_have_text("Create for $0.35/h")
        await expect(page.locator("[name=productName]")).to_contain_text("RTX 4090 24GB, from $0.35/h per GPU")
        await page.get_by_label("Billing").select_option("spot")

        await expect(page.locator(".choices label", has_text="PyTorch 2.6")).to_contain_text("8888 http, 22 tcp")
        await page.get_by_label("Find a template").fill("pytorch")
        await expect(page.locator(".choices label:visible")).to_have_count(1)
        await page.get_by_label("Find a template").press("Enter")
        await expect(page.locator("#hint-templateId")).to_contain_text("docker.io/pytorch")
        await expect(page.locator("#hint-templateId")).to_contain_text("8888 http")
        await page.get_by_label("Name", exact=True).fill("many")
        await page.get_by_label("Count").fill("3")
        await expect(go).to_have_text("Create 3 for $0.54/h")
        await expect(page.locator("#hint-name")).to_have_text("They are named many-1 to many-3.")
        await go.click()
        await expect(page.locator("#create")).to_be_hidden()
        await expect(page.locator("#notice")).to_have_text("3 instances are being created.")
        assert {"many-1", "many-2", "many-3"} <= set(await site.instances())
        assert (await site.instances())["many-1"]["templateId"] == "107672"
        assert tab.complaints == []


async def test_the_same_request_works_in_a_shell(site: Site) -> None:
    """Both commands are executed, and make what the form would have made."""
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await opened_form(page, site)
        await page.get_by_label("Name", exact=True).fill("from-shell")
        await page.get_by_label("Disk, GB").fill("80")
        await page.get_by_label("Maximum duration").fill("8h")
        await page.get_by_label("End when idle for").fill("30m")
        await page.get_by_label("At the end").select_option("delete")
        await page.get_by_text("Schedule, and what").click()
        await page.get_by_label("Stop at, as cron").fill("0 20 * * 1-5")
        await page.get_by_label("Time zone", exact=True).fill("Europe/Berlin")
        await page.get_by_text("Regions, price limit").click()
        await page.get_by_role("checkbox", name="AS-SGP-02").check()
        await page.get_by_label("Maximum price").fill("0.5")
        await page.get_by_text("Image, command, environment").click()
        await page.get_by_label("Command", exact=True).fill("echo 'a b'")
        await page.get_by_label("Ports").fill("8080/http, 22/tcp")
        await _add(page, "variable", "MODE", "train it")
        await _add(page, "secret", "TOKEN", SECRET)
        await _add(page, "label", "team", "vision")
        await page.get_by_text("The same as a command").click()
        lines = page.locator("#command-lines code")
        await expect(lines.first).to_contain_text("--max-price 0.5")
        command, curl = [shlex.split(text) for text in await lines.all_inner_texts()]
        assert SECRET not in str([command, curl])
        await page.keyboard.press("Escape")

    command[command.index("TOKEN=@FILE")] = "TOKEN=@token"
    (site.home / "token").write_text(SECRET)
    assert (await run(*command[1:], "--no-wait", cwd=site.home))[0] == 0
    body = json.loads(curl[curl.index("-d") + 1])
    made = await site.corral.ask(curl[2], "/api/instances", json={**body, "name": "from-curl"})
    assert (made.status, curl[3]) == (201, f"{site.corral.address}/api/instances")
    both = await site.instances()
    for name in ("from-shell", "from-curl"):
        found = (await site.corral.ask("GET", f"/api/instances/{both[name]['id']}/request")).json
        assert (found["rootfsSize"], found["regions"], found["maxPrice"]) == (80, ["AS-SGP-02"], 0.5)
        assert (found["command"], found["ports"]) == ("echo 'a b'", ["8080/http", "22/tcp"])
        assert (found["env"], both[name]["labels"]) == ({"MODE": "train it"}, {"team": "vision"})
        assert both[name]["secretNames"] == ["TOKEN"]
        lease = found["lease"]
        assert (lease["maxDuration"], lease["idle"]["after"], lease["onEnd"]) == ("8h", "30m", "delete")
        assert lease["schedule"] == {"stop": "0 20 * * 1-5", "start": None, "timezone": "Europe/Berlin"}


async def test_a_copy_keeps_the_limits_and_a_taken_name_is_noticed(site: Site) -> None:
    """From the address that the pages link to; the name of a live instance is a warning and no error."""
    body = {"name": "original", "productName": "RTX 4090 24GB", "templateId": "107672", "maxPrice": 0.4}
    chosen = {"regions": ["CN-HK-01", "AS-SGP-02"], "spotFallback": True, "healthCheck": {"path": "/up"}}
    chosen["lease"] = {"maxDuration": None, "idle": {"after": "30m", "gpuBelow": 20, "signals": ["gpu"]}, "grace": "5m"}
    made = await site.corral.ask("POST", "/api/instances", json={**body, **chosen})
    async with opened_tab(site.browser) as tab:
        page = tab.page
        await page.goto(f"{site.corral.address}/?duplicate={made.json['instanceId']}#create")
        go = page.locator("#create-go")
        await expect(go).to_have_text("Create for $0.18/h")
        await expect(page.get_by_label("Name", exact=True)).to_have_value("original-2")
        assert page.url == f"{site.corral.address}/"
        await page.get_by_label("Name", exact=True).fill("original")
        await expect(page.locator("#hint-name")).to_contain_text(re.compile("The name is taken: original is "))
        assert await axe_findings(page) == []
        await page.get_by_label("Name", exact=True).fill("copy")
        await expect(page.locator("#hint-name")).to_be_hidden()
        await expect(go).to_be_enabled()
        await go.click()
        await expect(page.locator("#create")).to_be_hidden()
        assert tab.complaints == []

    copy = (await site.instances())["copy"]["id"]
    requests = [
        (await site.corral.ask("GET", f"/api/instances/{each}/request")).json
        for each in (made.json["instanceId"], copy)
    ]
    assert requests[0] == {**requests[1], "name": "original"}


async def test_an_own_image_runs_without_a_template_and_its_copy_needs_the_secrets_again(site: Site) -> None:
    """What the volume excludes is explained; the values of secrets are neither shown nor kept by the page."""
    async with opened_tab(site.browser, width=390, scheme="dark") as tab:
        page = tab.page
        await opened_form(page, site)
        await page.get_by_label("Name", exact=True).fill("own")
        await page.get_by_text("No template").click()
        await expect(page.locator("#error-templateId")).to_be_visible()
        await page.get_by_text("Image, command, environment").click()
        await page.get_by_label("Image", exact=True).fill("docker.io/acme/trainer:7")
        await _add(page, "variable", "", "")
        await _paste(page.get_by_label("Name of the variable"), "# paths\nexport HOME_DIR=/data\nMODE='train it'\n")
        await expect(page.get_by_label("Value of the variable")).to_have_count(2)
        await _add(page, "secret", "TOKEN", SECRET)
        await page.get_by_role("button", name="Add a volume").click()
        await page.get_by_label("Volume", exact=True).select_option("datasets, 500 GB in US-CA-06")
        await expect(page.locator("#hint-volumes")).to_contain_text("Only offers in US-CA-06")
        await page.get_by_text("The same as a command").click()
        assert await axe_findings(page) == []
        assert not await is_too_wide(page)
        assert SECRET not in await page.locator("#create").inner_text()
        await page.locator("#create-go").click()
        await expect(page.locator("#create")).to_be_hidden()
        assert await page.get_by_label("Value of the secret").input_value() == ""

        made = (await site.instances())["own"]
        assert (made["templateId"], made["image"]) == (None, "docker.io/acme/trainer:7")
        assert (made["env"], made["secretNames"]) == ({"HOME_DIR": "/data", "MODE": "train it"}, ["TOKEN"])
        assert (made["region"], made["volumes"]) == ("US-CA-06", [{"id": "ns-datasets", "mount": "/workspace"}])

        await page.goto(f"{site.corral.address}/?duplicate={made['id']}#create")
        await expect(page.locator("#hint-secrets")).to_contain_text("enter them again")
        await expect(page.locator("#error-secrets")).to_have_text("needs the value of TOKEN, which is kept nowhere")
        await expect(page.locator("#create-go")).to_be_disabled()
        await page.get_by_label("Value of the secret").fill("another")
        await expect(page.locator("#create-go")).to_be_enabled()
        await page.locator("#create-go").click()
        await expect(page.locator("#create")).to_be_hidden()
        copied = (await site.instances())["own-2"]
        same = ("templateId", "image", "env", "secretNames", "volumes", "ports", "command")
        assert {name: copied[name] for name in same} == {name: made[name] for name in same}
        await page.goto(f"{site.corral.address}/instances/{copied['id']}")
        await expect(page.locator("#about")).to_contain_text("TOKEN; their values are not shown")
        assert [c for c in tab.complaints if "400" not in c] == []


async def _paste(into: Locator, text: str) -> None:
    """As from the clipboard, which a browser without a window does not have."""
    await into.evaluate(
        """(node, text) => {
          const clipboardData = new DataTransfer();
          clipboardData.setData("text", text);
          node.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )
