"""
Recreates the pictures in docs/images: `make pictures`. Needs Chromium, unlike `make docs`.

A separate service on the simulator creates a dozen machines. The events of that minute are then stretched over the hour
before, so that the charts show something; everything else is what the service shows.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import msgspec
from playwright.async_api import Browser, Page

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.http.browser import OTHER_HOST, launched, opened_tab  # noqa: E402  # the tests' own harness
from support.processes.process import Running, run, serving  # noqa: E402

from corral.base.clock import SystemClock  # noqa: E402
from corral.store.server.embedded import EmbeddedServer  # noqa: E402

IMAGES = ROOT / "docs" / "images"
STRETCH = 60.0
HEALTHY, LOGIN, SLOW, NEVER, BROKEN = "107672", "150032", "150031", "150033", "150034"
EARLIER = (
    ("notebook-lena", "RTX 4090 24GB", HEALTHY, 1),
    ("llm-serving", "H100 SXM 80GB", "107701", 4),
    ("nightly-eval", "RTX 5090 32GB", BROKEN, 1),
    ("embeddings", "RTX 4090 24GB", LOGIN, 2),
    ("image-index", "RTX 4090 24GB", NEVER, 2),
    ("render-a", "RTX 4090 24GB", "107715", 1),
    ("render-b", "RTX 4090 24GB", "107715", 1),
)
LEASES: dict[str, dict[str, Any]] = {
    "notebook-lena": {"idle": {"after": "30m"}, "maxDuration": "8h"},
    "embeddings": {"idle": {"after": "30m"}},
    "llm-serving": {"maxDuration": "2d"},
}
LABELS = {
    "notebook-lena": "research",
    "llm-serving": "chat",
    "nightly-eval": "chat",
    "embeddings": "search",
    "image-index": "search",
    "render-a": "studio",
    "render-b": "studio",
    "finetune-7b": "research",
    "whisper-batch": "search",
}
"""The label `team` of each instance."""
HISTORY = (
    ("llm-serving", "H100 SXM 80GB", 730_000, 4, "olga", range(21), 24.0),
    ("notebook-lena", "RTX 4090 24GB", 180_000, 1, "lena", range(30), 9.0),
    ("embeddings", "RTX 4090 24GB", 180_000, 2, "ci", range(0, 30, 2), 17.0),
    ("nightly-eval", "RTX 5090 32GB", 340_000, 2, "ci", range(30), 6.5),
    ("render-a", "L40S 48GB", 350_000, 4, "tom", range(3, 30, 1), 11.0),
    ("finetune-7b", "A100 SXM 80GB", 850_000, 8, "lena", range(9, 15), 8.0),
)
"""Name, product, micro-USD per GPU and hour, GPUs, owner, how many days ago, hours on a workday."""
BUDGETS: dict[str, dict[str, Any]] = {
    "everything": {"scope": "all", "period": "month", "limitUsd": 2500, "onLimit": "notify"},
    "search": {"scope": "label:team=search", "period": "month", "limitUsd": 60, "onLimit": "refuse"},
}
LATER = (("finetune-7b", "RTX 4090 24GB", NEVER, 2), ("whisper-batch", "RTX 5090 32GB", HEALTHY, 1))


async def main() -> None:
    """Start, create, stretch, take pictures."""
    with tempfile.TemporaryDirectory(prefix="corral-pictures-") as place:
        data_dir = Path(place) / ".corral"
        Path(place).chmod(0o711)
        async with serving(data_dir, LOG_LEVEL="warning") as corral, aiohttp.ClientSession(corral.address) as client:
            await tune(data_dir, boot_seconds="1", pull_seconds="0.5")
            for order in EARLIER:
                await create(client, *order)
                await asyncio.sleep(7)  # noqa: TID251  # so that they start one after the other
            await settled(client)
            await act(client, "render-b", "stop")
            await settled(client)
            await stretch(data_dir, client)
            for order, boot in zip(LATER, ("2", "60"), strict=True):
                await tune(data_dir, boot_seconds=boot)
                await create(client, *order)
                await asyncio.sleep(5)  # noqa: TID251  # to be seen while they start
            await let_idle(data_dir, client, corral.address)
            async with launched() as browser:
                await take_pictures(browser, corral)
                await tune(data_dir, remove_seconds="600")
                await act(client, "render-a", "delete")
                await asyncio.sleep(10)  # noqa: TID251  # to be billed while it is deleted
                await stretch_usage(data_dir, client)
                await add_history(data_dir)
                for name, budget in BUDGETS.items():
                    async with client.put(f"/api/budgets/{name}", json=budget) as answer:
                        answer.raise_for_status()
                await picture_the_costs(browser, corral)
        await picture_the_sign_in(Path(place) / "keyed")


async def tune(data_dir: Path, call: str = "settings", **settings: str) -> None:
    """Change the simulated provider."""
    address = (data_dir / "simulator" / "address").read_text(encoding="utf-8").strip()
    async with aiohttp.ClientSession() as client, client.post(f"{address}/_sim/{call}", json=settings) as answer:
        answer.raise_for_status()


async def create(client: aiohttp.ClientSession, name: str, product: str, template: str, gpus: int) -> None:
    """Create an instance."""
    body: dict[str, Any] = {"name": name, "productName": product, "templateId": template, "gpuNum": gpus}
    body |= {"labels": {"team": LABELS[name]}, "rootfsSize": 200 if name.startswith("render") else 60}
    if name == "image-index":  # which fails while it runs, and is billed
        body["healthCheckConfig"] = {"maxWaitTimeMs": 30_000}
    if name in LEASES:
        body["lease"] = LEASES[name]
    async with client.post("/api/instances", json=body) as answer:
        answer.raise_for_status()


async def act(client: aiohttp.ClientSession, name: str, verb: str) -> None:
    """Stop or start one, by its name."""
    async with client.post(f"/api/instances/{verb}", json={"instanceName": name}) as answer:
        answer.raise_for_status()


async def settled(client: aiohttp.ClientSession) -> None:
    """Wait until no instance is in transition."""
    while True:
        async with client.get("/api/instances") as answer:
            found = (await answer.json())["instances"]
        if all(instance["status"] in {"ready", "failed", "exited"} for instance in found):
            return
        await asyncio.sleep(0.5)  # noqa: TID251  # waiting for another process


async def connected(data_dir: Path) -> asyncpg.Connection[Any]:
    """A connection to the database of the running service."""
    target = EmbeddedServer(data_dir, SystemClock()).running()
    assert target is not None, "the service runs"  # noqa: S101
    return await asyncpg.connect(**target.arguments())


async def let_idle(data_dir: Path, client: aiohttp.ClientSession, address: str) -> None:
    """Record that two were idle for a while, one of which has its notice; without samples that stays so."""
    now = datetime.now(UTC)  # noqa: TID251  # no test: a picture
    given_at = now - timedelta(minutes=3, seconds=10)
    notice = {
        "cause": "idle",
        "reason": "GPU 0 %, CPU 2 % for 30 min",
        "given_at": given_at,
        "ends_at": given_at + timedelta(minutes=10),
    }
    connection = await connected(data_dir)
    for name, minutes, given in (("embeddings", 33.5, notice), ("notebook-lena", 24.2, None)):
        await tune(data_dir, "load", name=name, samples="none")
        quiet = {"quiet_since": now - timedelta(minutes=minutes), "gpu": 0.3, "cpu": 1.8, "judged_at": now}
        state = msgspec.json.encode({"idle": quiet, "notice": given}).decode()
        own_id = await id_of(address, name)
        await connection.execute("UPDATE corral_instances SET lease = lease || $2::jsonb WHERE id = $1", own_id, state)
    await connection.close()
    async with client.post("/api/cache/clear") as answer:
        answer.raise_for_status()


async def add_history(data_dir: Path) -> None:
    """Record usage of the last 30 days, with less of it at the weekend, by machines that are gone."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)  # noqa: TID251  # no test: a picture
    rows = list[tuple[Any, ...]]()
    for name, product, price, gpus, owner, days, hours in HISTORY:
        for ago in days:
            day = today - timedelta(days=ago + 1)
            worked = hours * ((0.35 if day.weekday() > 4 else 1.0) - 0.04 * (ago * 7 % 5))  # noqa: PLR2004  # saturday
            began, cause = day, "booting"
            for cause, share in (("booting", 0.02), ("serving", 0.9), ("idle", 0.05), ("deleting", 0.03)):
                ended = began + timedelta(hours=worked * share)
                labels = msgspec.json.encode({"team": LABELS[name]}).decode()
                slack = timedelta(seconds=2)
                bounds = (began, began + slack, max(began, ended - slack), ended)
                rows.append((f"{name}-{ago}", cause, price * 24, gpus, *bounds, product, owner, labels))
                began = ended
    connection = await connected(data_dir)
    await connection.executemany(
        """
        INSERT INTO corral_usage (provider_id, kind, cause, unit_price, quantity, estimated, started_earliest,
            started_latest, ended_earliest, ended_latest, confirmed_at, follows, product_name, region, billing_mode,
            created_by, labels)
        VALUES ($1, 'gpu', $2, $3, $4, FALSE, $5, $6, $7, $8, $8, FALSE, $9, 'US-CA-06', 'spot', $10, $11)
        """,
        rows,
    )
    await connection.close()


async def stretch_usage(data_dir: Path, client: aiohttp.ClientSession) -> None:
    """The same for usage, which is closer to now than the rest."""
    columns = ("started_earliest", "started_latest", "ended_earliest", "ended_latest", "confirmed_at")
    moved = ", ".join(f"{column} = now() - (now() - {column}) * $1::float8" for column in columns)
    connection = await connected(data_dir)
    await connection.execute(f"UPDATE corral_usage SET {moved}", STRETCH)  # noqa: S608  # names from above
    await connection.close()
    async with client.post("/api/cache/clear") as answer:
        answer.raise_for_status()


async def stretch(data_dir: Path, client: aiohttp.ClientSession) -> None:
    """Multiply the distance of every timestamp from now by STRETCH."""
    now = datetime.now(UTC)  # noqa: TID251  # no test: a picture
    connection = await connected(data_dir)
    moved = "$1::timestamptz - ($1::timestamptz - {0}) * $2::float8"
    for table, columns in (
        ("corral_events", ("at",)),
        ("corral_operations", ("created_at",)),
        ("corral_instances", ("created_at",)),
        ("corral_ready_times", ("at",)),
    ):
        sets = ", ".join(f"{column} = {moved.format(column)}" for column in columns)
        await connection.execute(f"UPDATE {table} SET {sets}", now, STRETCH)  # noqa: S608  # names from above
    times = "UPDATE corral_ready_times SET seconds = seconds * $1, lag_seconds = lag_seconds * $1"
    await connection.execute(times, STRETCH)
    for table, column in (("corral_instances", "record"), ("corral_operations", "phases")):
        for row in await connection.fetch(f"SELECT id, {column} AS value FROM {table}"):  # noqa: S608  # as above
            value = msgspec.json.encode(_moved(msgspec.json.decode(row["value"]), now)).decode()
            await connection.execute(f"UPDATE {table} SET {column} = $2 WHERE id = $1", row["id"], value)  # noqa: S608
    await connection.close()
    async with client.post("/api/cache/clear") as answer:
        answer.raise_for_status()


def _moved(value: Any, now: datetime) -> Any:
    """*value* with every timestamp in it moved."""
    if isinstance(value, dict):
        return {key: _moved(each, now) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, now) for each in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", value):
        past: timedelta = now - datetime.fromisoformat(value)
        return (now - past * STRETCH).isoformat().replace("+00:00", "Z")
    return value


async def take_pictures(browser: Browser, corral: Running) -> None:
    """The fleet on a desktop, in the dark and on a phone; a failure; the order form; the operations; the API."""
    for name, width, height, scheme in (
        ("dashboard", 1280, 1180, "light"),
        ("dashboard-dark", 1280, 900, "dark"),
        ("dashboard-phone", 390, 844, "light"),
    ):
        async with opened_tab(browser, width=width, scheme=scheme) as tab:
            await open_fleet(tab.page, corral.address, width, height)
            await tab.page.screenshot(path=IMAGES / f"{name}.png")
    async with opened_tab(browser) as tab:
        page = tab.page
        await open_fleet(page, corral.address, 1280, 800)
        await page.get_by_role("button", name="New instance").click()
        await page.locator("#plan").get_by_text("$").first.wait_for()
        await page.screenshot(path=IMAGES / "new-instance.png")

        await page.set_viewport_size({"width": 1280, "height": 900})
        await page.goto(f"{corral.address}/instances/{await id_of(corral.address, 'nightly-eval')}")
        await page.locator("#why").get_by_text("PROVISIONING_FAILED").first.wait_for()
        await page.locator("#link[data-state=live]").wait_for()
        await page.screenshot(path=IMAGES / "failure.png")

        await page.goto(f"{corral.address}/instances/{await id_of(corral.address, 'embeddings')}")
        await page.locator("#ending:visible").wait_for()
        await page.locator("#link[data-state=live]").wait_for()
        await page.screenshot(path=IMAGES / "lease.png", clip={"x": 0, "y": 0, "width": 830, "height": 720})

        await page.goto(f"{corral.address}/operations")
        await page.locator("#attention").get_by_text("image-index").first.wait_for()
        await page.locator("#link[data-state=live]").wait_for()  # which is after every section was read
        await page.screenshot(path=IMAGES / "operations.png")

        await page.goto(f"{corral.address}/docs#tag/instances/POST/api/instances")
        await page.get_by_text("curl -X POST").first.wait_for()
        await page.screenshot(path=IMAGES / "api.png")


async def picture_the_costs(browser: Browser, corral: Running) -> None:
    """The costs page, with a month of usage."""
    async with opened_tab(browser) as tab:
        await tab.page.set_viewport_size({"width": 1280, "height": 1200})
        await tab.page.goto(f"{corral.address}/costs")
        await tab.page.locator("#past table").wait_for()
        await tab.page.locator("#link[data-state=live]").wait_for()
        await tab.page.screenshot(path=IMAGES / "costs.png", full_page=True)


async def picture_the_sign_in(place: Path) -> None:
    """The page of a service that other machines can reach, before a key was entered."""
    place.mkdir()
    await run("keys", "create", "olga", "--role", "operator", cwd=place)
    everywhere = "0.0.0.0"  # noqa: S104
    async with (
        serving(place / ".corral", HOST=everywhere, LOG_LEVEL="warning") as corral,
        launched() as browser,
        opened_tab(browser) as tab,
    ):
        await tab.page.set_viewport_size({"width": 1280, "height": 640})
        await tab.page.goto(corral.address.replace(everywhere, OTHER_HOST))
        await tab.page.locator("dialog#key[open]").wait_for()
        await tab.page.screenshot(path=IMAGES / "sign-in.png")


async def id_of(address: str, name: str) -> str:
    """Corral's id of the instance with this name."""
    async with aiohttp.ClientSession(address) as client, client.get("/api/instances", params={"name": name}) as answer:
        found: str = (await answer.json())["instances"][0]["id"]
        return found


async def open_fleet(page: Page, address: str, width: int, height: int) -> None:
    """The page, once its charts are drawn and its instances are listed."""
    await page.set_viewport_size({"width": width, "height": height})
    await page.goto(address)
    await page.locator("#cost-chart .line").wait_for(state="attached")
    await page.locator("#rows tr").first.wait_for()
    await page.locator("#link[data-state=live]").wait_for()


if __name__ == "__main__":
    asyncio.run(main())
