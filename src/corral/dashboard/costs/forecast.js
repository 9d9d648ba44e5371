// What is billed now and where that leads: the end of the month and of the balance; and what is billed without use.

import { request } from "../shared/api.js";
import { el } from "../shared/dom.js";
import { money, plural, span } from "../shared/format.js";
import { bodyOf, render } from "../shared/parts.js";
import { shortLocal } from "../shared/time.js";
import { range } from "./stack.js";

// What machines are doing that are billed and of no use.
const WITHOUT_USE = {
  failed: "failed",
  deleting: "being deleted",
  stopped_disk: "stopped, for the disk alone",
  orphan: "without a record (orphans)",
  overlap: "replaced by another",
  duplicate: "created twice",
};

const YEAR_MS = 31536000000;

export async function show() {
  const [{ usdPerHour, causes, month }, account] = await Promise.all([request("/api/costs/forecast"), request("/api/account")]);
  const machines = causes.reduce((sum, each) => sum + (each.cause === "stopped_disk" ? 0 : each.machines), 0);
  render(bodyOf("forecast"), [usdPerHour, machines, month, account], () => [el("div", { className: "tiles" },
    tile("Running cost", money(usdPerHour), "per hour", plural(machines, "machine")),
    tile("This month", money(month.soFar.usd), "so far", range(month.soFar)),
    tile("By the end of the month", money(month.expected.usd), "expected", "if everything that is billed now stays"),
    balance(account))]);
  showWithoutUse(causes.filter(({ cause }) => cause in WITHOUT_USE));
}

function balance({ balance, problem, runsOutAt }) {
  if (!balance) return tile("Balance", "unknown", "", problem ?? "");
  const ms = runsOutAt === null ? Infinity : Date.parse(runsOutAt) - Date.now();
  const note = ms > YEAR_MS ? "lasts for more than a year" : `lasts ${span(ms)}, until ${shortLocal(runsOutAt)}`;
  return tile("Balance", money(balance.availableUsd), "", note);
}

function tile(title, value, unit, note) {
  return el("div", {}, el("h3", {}, title), el("p", { className: "figure" }, value, " ", el("small", {}, unit)), el("p", { className: "note" }, note));
}

function showWithoutUse(causes) {
  const total = causes.reduce((sum, { usdPerHour }) => sum + usdPerHour, 0);
  render(bodyOf("leaks"), causes, () => causes.length
    ? [el("p", {}, `Together ${money(total)} per hour. `), el("ul", { role: "list" }, ...causes.map(line))]
    : [el("p", { className: "note" }, "Nothing: no machine is failed, being deleted or forgotten, and no stopped one has a disk that costs.")]);
}

function line({ cause, machines, usdPerHour, soFar }) {
  return el("li", {}, el("b", {}, money(soFar.usd)), ` on ${plural(machines, "machine")} ${WITHOUT_USE[cause]}, ${money(usdPerHour)} per hour`);
}
