"""Leases on the dashboard: countdowns with reasons, extending, changing; browser and service share a clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from support.http.browser import Tab, launched, opened_tab
from support.http.dashboard import axe_findings, choose, is_too_wide
from support.http.large_fleet import add_instances
from support.http.served_api import ServedApi, opened

from corral.domain.leases.lease import EndAction, EndCause, IdleRule, IdleSummary, Lease, LeaseState, Notice
from corral.store.session.database import Database

pytestmark = pytest.mark.timeout(400)

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

ENDS = """async (cases) => {
  const { endText } = await import("./dashboard/lease/text.js");
  return cases.map(([data, clock]) => endText(data, Date.parse(`2030-01-01T${clock}Z`)));
}"""
IDLE = {"since": "2030-01-01T00:00:00Z", "after": "30m", "gpu": 0.2, "cpu": 1.6}
QUIET: dict[str, Any] = {"endsAt": "2030-01-01T00:40:00Z", "endsBecause": "idle", "quiet": IDLE}
"""Idle after 30 minutes, with a notice of ten."""
DURATION = {"endsAt": "2030-01-01T09:00:00Z", "endsBecause": "max_duration", "endsReason": "maximum duration of 8 h"}
SCHEDULE = {"endsAt": "2030-01-03T08:00:00Z", "endsBecause": "schedule", "endsReason": "schedule 0 8 * * * UTC"}
COUNTED = [
    (QUIET, "00:24:10", "ends in 15 min: GPU 0 %, CPU 2 % for 24 of 30 min"),
    (QUIET, "00:34:00", "ends in 6 min: GPU 0 %, CPU 2 % for 34 min"),
    (QUIET, "00:39:17", "ends in 43 s: GPU 0 %, CPU 2 % for 39 min"),
    (QUIET, "00:40:00", "ends now: GPU 0 %, CPU 2 % for 40 min"),
    (QUIET | {"quiet": IDLE | {"gpu": None}}, "00:00:00", "ends in 40 min: CPU 2 % for 0 of 30 min"),
    (QUIET | {"quiet": IDLE | {"gpu": None, "cpu": None}}, "00:12:00", "ends in 28 min: not used for 12 of 30 min"),
    (QUIET | {"quiet": IDLE | {"after": "2h30m"}}, "00:00:00", "ends in 40 min: GPU 0 %, CPU 2 % for 0 of 2.5 h"),
    (QUIET | {"quiet": IDLE | {"after": "1m30s"}}, "00:01:00", "ends in 39 min: GPU 0 %, CPU 2 % for 60 of 90 s"),
    (DURATION, "01:00:00", "ends in 8 h: maximum duration of 8 h"),
    (DURATION, "07:24:30", "ends in 1 h 35 min: maximum duration of 8 h"),
    (SCHEDULE, "00:00:00", "ends in 2 d 8 h: schedule 0 8 * * * UTC"),
    ({"endsAt": None, "endsBecause": None}, "00:00:00", ""),
]
DATA = """async ([until, now]) => {
  const { dataText, isDataExpiring } = await import("./dashboard/lease/text.js");
  const data = { dataKeptUntil: until };
  return [dataText(data, "3 Jan", Date.parse(now)), isDataExpiring(data, Date.parse(now))];
}"""
KEPT = {
    "2030-01-01T00:00:00Z": ["data kept until 3 Jan, in 2 d 1 h", False],
    "2030-01-02T23:00:00Z": ["data kept until 3 Jan, in 2 h", True],
    "2030-01-03T02:00:00Z": ["data was kept until 3 Jan and may be gone", True],
}
EVENTS = """async () => {
  const { textOf, toneOf, wordOf } = await import("./dashboard/shared/events.js");
  const said = (event, data, error = null) => {
    const whole = { event, status: "ready", reason: "the reason", error, data };
    return [wordOf(whole), toneOf(whole), textOf(whole, (at) => at.slice(11, 16))];
  };
  return [
    said("instance.ready", {}),
    said("instance.failed", {}, { code: "CODE", message: "why" }),
    said("instance.ending_soon", { reason: "GPU 0 % for 30 min", endsAt: "2030-01-01T20:15:00Z" }),
    said("instance.ending_cancelled", {}),
    said("instance.lease_changed", {}),
    said("instance.data_expiring", { dataKeptUntil: "2030-01-01T20:15:00Z" }),
  ];
}"""
HIDE = """([hidden]) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
COUNTDOWNS = """async () => {
  const { ticking } = await import("./dashboard/shared/time.js");
  for (const id of ["one", "two"]) {
    const node = document.createElement("p");
    node.id = id;
    document.body.append(ticking(node, (now) => String(Math.floor(now / 1000))));
  }
}"""


async def test_ends_are_counted_down_in_words(database: Database) -> None:
    """By one timer, which a hidden tab does not have."""
    async with opened(database) as api, launched() as browser, opened_tab(browser) as tab:
        page = tab.page
        await page.clock.install(time="2030-01-01T00:00:00Z")
        await page.goto(api.service.address)

        found = await page.evaluate(ENDS, [[data, clock] for data, clock, _ in COUNTED])
        assert found == [text for _, _, text in COUNTED]
        until = "2030-01-03T01:00:00Z"
        assert {now: await page.evaluate(DATA, [until, now]) for now in KEPT} == KEPT
        assert await page.evaluate(EVENTS) == [
            ["ready", "good", "the reason"],
            ["ready", "good", "CODE: why"],
            ["ends soon", "warn", "It ends at 20:15: GPU 0 % for 30 min"],
            ["end cancelled", "good", "the reason"],
            ["lease changed", "idle", "the reason"],
            [
                "data expires soon",
                "warn",
                "The provider deletes its data after 20:15: start it before, or save the data",
            ],
        ]

        await page.clock.pause_at("2030-01-01T01:00:00Z")
        await page.evaluate(COUNTDOWNS)
        one, two = page.locator("#one"), page.locator("#two")
        shown = int(await one.inner_text())
        await page.clock.run_for(3000)
        await expect(one).to_have_text(str(shown + 3))
        await expect(two).to_have_text(str(shown + 3))
        await page.evaluate(HIDE, [True])
        await page.clock.run_for(60_000)
        await expect(one).to_have_text(str(shown + 3))
        await page.evaluate(HIDE, [False])
        await expect(one).to_have_text(str(shown + 63))
        await expect(two).to_have_text(str(shown + 63))


async def test_a_lease_is_seen_extended_and_changed(database: Database) -> None:
    """On the fleet page and on the page of an instance, by keyboard, on a phone in the dark, and by a viewer."""
    async with opened(database) as api, launched() as browser:
        await add_instances(database, 5)
        await _lease(api)
        async with _tab(browser, api) as tab:
            await _rows(tab.page, api)
            await _extend(tab.page, api)
            assert [c for c in tab.complaints if "400" not in c and "409" not in c] == []
        async with _tab(browser, api, width=320, scheme="dark") as tab:
            await _change(tab.page, api)
            assert [c for c in tab.complaints if "400" not in c] == []
        async with _tab(browser, api) as tab:
            await _viewer(tab.page, api)


async def _lease(api: ServedApi) -> None:
    """Number 0 is quiet, number 2 has a notice, the data of number 1 is kept for a day and six hours."""
    now = api.env.clock.now()
    quiet = IdleSummary(quiet_since=now - 24 * MINUTE - MINUTE / 2, gpu=0.2, cpu=1.6, judged_at=now)
    idle = LeaseState(lease=Lease(idle=IdleRule(after=30 * MINUTE)), idle=quiet)
    await api.change("inst_0", ready_at=now - HOUR, lease=idle)
    notice = Notice(
        cause=EndCause.MAX_DURATION,
        reason="maximum duration of 8 h",
        given_at=now - 3.5 * MINUTE,
        ends_at=now + 6.5 * MINUTE,
    )
    longest = Lease(max_duration=8 * HOUR, on_end=EndAction.DELETE)
    noticed = LeaseState(lease=longest, notice=notice)
    await api.change("inst_2", ready_at=notice.ends_at - 8 * HOUR, lease=noticed)
    await api.change("inst_1", observation={"data_kept_until": now + 30.5 * HOUR})


@asynccontextmanager
async def _tab(browser: Browser, api: ServedApi, **options: Any) -> AsyncGenerator[Tab]:
    """A page whose time stays at that of the service."""
    async with opened_tab(browser, **options) as tab:
        await tab.page.clock.set_fixed_time(api.env.clock.now())
        await tab.page.goto(api.service.address)
        await expect(tab.page.locator("#rows tr")).to_have_count(5)
        yield tab


async def _rows(page: Page, api: ServedApi) -> None:
    """Each has its countdown with the reason, which moves nothing as it goes on."""
    row = {number: page.locator(f'#rows tr[data-id="inst_{number}"]') for number in range(5)}
    ends = {number: row[number].locator(".ends") for number in row}
    await expect(ends[0]).to_have_text("ends in 15 min: GPU 0 %, CPU 2 % for 24 of 30 min")
    await expect(ends[2]).to_have_text("ends in 6 min: maximum duration of 8 h")
    await expect(ends[1]).to_contain_text(", in 1 d 6 h")
    await expect(ends[4]).to_be_hidden()
    await expect(row[2].get_by_text("ending soon")).to_be_visible()
    await expect(row[0].get_by_text("ending soon")).to_be_hidden()
    assert await axe_findings(page) == []
    before = [await each.bounding_box() for each in row.values()]
    await page.clock.set_fixed_time(api.env.clock.now() + 6 * MINUTE)
    await expect(ends[0]).to_have_text("ends in 9 min: GPU 0 %, CPU 2 % for 30 min")
    await expect(ends[2]).to_have_text("ends in 30 s: maximum duration of 8 h")
    assert [await each.bounding_box() for each in row.values()] == before
    await page.clock.set_fixed_time(api.env.clock.now())


async def _extend(page: Page, api: ServedApi) -> None:
    """An error of the API is shown in its words, and nothing is sent without a time."""
    await choose(page, "Extend …", "trainer-2")
    dialog = page.get_by_role("dialog", name="Extend trainer-2")
    await expect(dialog).to_contain_text("It ends in 6 min: maximum duration of 8 h.")
    await expect(dialog.get_by_label("1 hour")).to_be_focused()
    await page.keyboard.press("ArrowLeft")  # round to the last
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_have_text("Choose a day and a time.")
    await dialog.get_by_label("Until, in your time zone").fill("2029-12-31T12:00")
    assert await axe_findings(page) == []
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_contain_text("until")
    await dialog.get_by_label("4 hours").check()
    await expect(dialog.get_by_role("alert")).to_be_hidden()
    await dialog.get_by_role("button", name="Extend").click()
    await expect(dialog).to_be_hidden()
    await expect(page.locator("#notice")).to_contain_text("trainer-2 does not end before")
    row = page.locator('#rows tr[data-id="inst_2"]')
    await expect(row.locator(".ends")).to_contain_text("ends in 4 h 6 min: ")
    await expect(row.get_by_text("ending soon")).to_be_hidden()
    await page.reload()
    await expect(page.locator("#feed li", has_text="lease changed")).to_be_visible()
    await expect(page.locator("#feed li", has_text="end cancelled")).to_be_visible()

    await api.change("inst_0", lease=None)
    await choose(page, "Extend …", "trainer-0")
    await page.get_by_role("dialog").get_by_role("button", name="Extend").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("lease")
    await page.keyboard.press("Escape")
    await _lease(api)


async def _change(page: Page, api: ServedApi) -> None:
    """A lease is set, its errors are under their fields; a part that is emptied is removed."""
    await page.goto(f"{api.service.address}/instances/inst_2")
    await expect(page.locator("#ending")).to_be_visible()
    await expect(page.locator("#lease-end")).to_have_text("Ends in 6 min: maximum duration of 8 h")
    await expect(page.locator("#lease-notice")).to_contain_text("It is deleted, with its data, at")
    assert await axe_findings(page) == []
    assert not await is_too_wide(page)
    await page.get_by_role("button", name="Extend").click()
    await page.get_by_role("dialog").get_by_role("button", name="Extend").click()
    await expect(page.locator("#lease-end")).to_contain_text("Ends in 1 h 6 min")
    await expect(page.locator("#ending")).to_be_hidden()
    await page.reload()
    await expect(page.locator("#events")).to_contain_text("ending cancelled")

    await page.goto(f"{api.service.address}/instances/inst_4")
    await expect(page.locator("#lease-end")).to_have_text("None: it runs until it is stopped or deleted.")
    await page.get_by_role("button", name="Set a lease").click()
    await expect(page.get_by_label("Maximum duration")).to_be_focused()
    await page.get_by_label("End when idle for").fill("soon")
    await page.get_by_text("Schedule, and what").click()
    await page.get_by_label("Stop at, as cron").fill("0 20 * * 1-5")
    await page.get_by_label("Time zone", exact=True).fill("Europe/Nowhere")
    await page.get_by_text("Schedule, and what").click()
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator('[data-field="lease.idle.after"] .field-error')).to_be_visible()
    await expect(page.locator('[data-field="lease.schedule.timezone"] .field-error')).to_contain_text("time zone")
    assert await axe_findings(page) == []
    assert not await is_too_wide(page)
    await page.get_by_label("End when idle for").fill("30m")
    await page.get_by_label("Time zone", exact=True).fill("Europe/Berlin")
    await page.get_by_label("Maximum duration").fill("8h")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("button", name="Change the lease")).to_be_focused()
    await expect(page.locator("#lease")).to_contain_text("30 min with GPU below 5 %, CPU below 10 %, no use reported")
    await expect(page.locator("#lease")).to_contain_text("0 20 * * 1-5, Europe/Berlin")
    await page.get_by_role("button", name="Change the lease").click()
    await expect(page.get_by_label("Maximum duration")).to_have_value("8h")
    await page.get_by_label("Maximum duration").fill("")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#lease")).not_to_contain_text("Maximum duration")
    found = (await api.get("/api/instances/inst_4")).json["lease"]
    assert (found["maxDuration"], found["idle"]["after"], found["idle"]["gpuBelow"]) == (None, "30m", 5)

    await page.goto(f"{api.service.address}/instances/inst_1")
    await expect(page.locator("#why")).to_contain_text(", in 1 d 6 h")
    assert await axe_findings(page) == []


async def _viewer(page: Page, api: ServedApi) -> None:
    """Sees the countdown, and nothing to change it with."""
    await page.route("**/api/whoami", lambda route: route.fulfill(json={"name": "vera", "role": "viewer"}))
    await page.goto(api.service.address)
    await expect(page.locator("#who")).to_contain_text("vera")
    await page.get_by_role("button", name="Actions for trainer-2", exact=True).click()
    await expect(page.get_by_role("menuitem", name="Details")).to_be_visible()
    await expect(page.get_by_role("menuitem", name="Extend …")).to_have_count(0)
    await page.goto(f"{api.service.address}/instances/inst_2")
    await expect(page.locator("#lease-end")).to_contain_text("Ends in")
    await expect(page.locator("#lease-extend")).to_be_hidden()
    await expect(page.locator("#lease-edit")).to_be_hidden()
    assert await axe_findings(page) == []
