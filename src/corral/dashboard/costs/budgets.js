// Budgets as bars: what is spent, what is set aside for creates and starts, and the limit.

import { request } from "../shared/api.js";
import { $, el } from "../shared/dom.js";
import { money } from "../shared/format.js";
import { bodyOf, render } from "../shared/parts.js";
import { shortLocal } from "../shared/time.js";
import { draw } from "./draw.js";

const ON_LIMIT = { refuse: "then creates and starts are refused", stop: "then machines are stopped", notify: "then only events are sent" };
const SCOPES = [[/^all$/, "everything"], [/^key:/, "owner "], [/^label:/, "label "]];

export async function show() {
  const [{ budgets }, forecast] = await Promise.all([request("/api/budgets"), request("/api/costs/forecast")]);
  const ends = new Map(forecast.budgets.map(({ name, runsOutAt }) => [name, runsOutAt]));
  $("budgets").hidden = !budgets.length;
  render(bodyOf("budgets"), [budgets, forecast.budgets], () => budgets.map((budget) => bar(budget, ends.get(budget.name))));
}

function bar({ name, scope, period, limitUsd, onLimit, spent, reserved, resetsAt }, runsOutAt) {
  const share = (usd) => (limitUsd ? Math.min(1, usd / limitUsd) : 1);
  const [used, set] = [share(spent), share(spent + reserved)];
  const words = `${money(spent)} of ${money(limitUsd)} spent${reserved ? `, ${money(reserved)} set aside` : ""}`;
  const picture = draw("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${words}` },
    draw("rect", { class: "reserved", x: used, width: set - used, height: 1 }),
    draw("rect", { class: "spent", "data-tone": used >= 1 ? "bad" : used >= 0.8 ? "warn" : "good", width: used, height: 1 }));
  const what = SCOPES.reduce((text, [pattern, word]) => text.replace(pattern, word), scope);
  const end = runsOutAt && used < 1 ? `; at the present cost it is used up ${shortLocal(runsOutAt)}` : "";
  const when = resetsAt ? `resets ${shortLocal(resetsAt)}` : "never resets";
  return el("div", { className: "budget" },
    el("p", { className: "line" }, el("b", {}, name), el("span", {}, words)), picture,
    el("p", { className: "note" }, `${what}, ${period === "total" ? "in total" : `a ${period}`}; ${ON_LIMIT[onLimit] ?? onLimit}; ${when}${end}`));
}
