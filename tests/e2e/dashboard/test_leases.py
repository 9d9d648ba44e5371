"""Leases on the dashboard: countdowns with their reasons, in the words of the contract."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect
from support.http.browser import launched, opened_tab
from support.http.served_api import opened

from corral.store.session.database import Database

pytestmark = pytest.mark.timeout(400)

ENDS = """async (cases) => {
  const { endText } = await import("./dashboard/lease/text.js");
  return cases.map(([data, clock]) => endText(data, Date.parse(`2030-01-01T${clock}Z`)));
}"""
IDLE = {"since": "2030-01-01T00:00:00Z", "after": "30m", "gpu": 0.2, "cpu": 1.6}
QUIET: dict[str, Any] = {"endsAt": "2030-01-01T00:40:00Z", "endsBecause": "idle", "quiet": IDLE}
"""Idle after 30 minutes, with a notice of ten."""
DURATION = {"endsAt": "2030-01-01T09:00:00Z", "endsBecause": "max_duration"}
SCHEDULE = {"endsAt": "2030-01-03T08:00:00Z", "endsBecause": "schedule", "reason": "schedule 0 8 * * * UTC"}
COUNTED = [
    (QUIET, "00:24:10", "ends in 15 min: GPU 0 %, CPU 2 % for 24 of 30 min"),
    (QUIET, "00:34:00", "ends in 6 min: GPU 0 %, CPU 2 % for 34 min"),
    (QUIET, "00:39:17", "ends in 43 s: GPU 0 %, CPU 2 % for 39 min"),
    (QUIET, "00:40:00", "ends now: GPU 0 %, CPU 2 % for 40 min"),
    (QUIET | {"quiet": IDLE | {"gpu": None}}, "00:00:00", "ends in 40 min: CPU 2 % for 0 of 30 min"),
    (QUIET | {"quiet": IDLE | {"gpu": None, "cpu": None}}, "00:12:00", "ends in 28 min: not used for 12 of 30 min"),
    (QUIET | {"quiet": IDLE | {"after": "2h30m"}}, "00:00:00", "ends in 40 min: GPU 0 %, CPU 2 % for 0 of 2.5 h"),
    (QUIET | {"quiet": IDLE | {"after": "1m30s"}}, "00:01:00", "ends in 39 min: GPU 0 %, CPU 2 % for 60 of 90 s"),
    (DURATION, "01:00:00", "ends in 8 h: maximum duration"),
    (DURATION, "07:24:30", "ends in 1 h 35 min: maximum duration"),
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
