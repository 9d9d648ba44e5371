// The last 30 days: a column for each day, stacked by product, owner, label or another property; the same as a table; and
// the lines behind it as a file.

import { readText, request } from "../shared/api.js";
import { $, el, notice, setText } from "../shared/dom.js";
import { money } from "../shared/format.js";
import { bodyOf, render, table } from "../shared/parts.js";
import { draw } from "./draw.js";
import { DAYS, MOST, daysUntil, layers, range, total } from "./stack.js";

const [WIDTH, HEIGHT] = [600, 160];
const LABELLED = 500; // instances whose names are shown and whose labels can be chosen: the API's largest page

export function begin(read) {
  const wanted = new URLSearchParams(location.search).get("by");
  if (wanted) choose(wanted);
  $("by").addEventListener("change", () => {
    history.replaceState(null, "", `?by=${encodeURIComponent($("by").value)}`);
    read();
  });
  $("get-csv").addEventListener("click", () => download("csv"));
  $("get-focus").addEventListener("click", () => download("focus"));
}

function choose(value) {
  if (![...$("by").options].some((each) => each.value === value)) $("by").append(el("option", { value }, value.replace("label:", "label ")));
  $("by").value = value;
}

export async function show() {
  const [by, days] = [$("by").value, daysUntil(Date.now())];
  const query = new URLSearchParams({ from: days[0], groupBy: by, perDay: true, limit: MOST });
  const [report] = await Promise.all([request(`/api/costs?${query}`), readInstances()]);
  if (by !== $("by").value) return; // another was chosen meanwhile
  const stack = layers(report, days, (key) => (by === "instance" && names.get(key)) || key);
  $("course").hidden = !stack.length;
  render(bodyOf("past"), [by, days, stack, report.total], () => {
    if (!stack.length) return [el("p", { className: "note" }, "Nothing was billed.")];
    drawDays(stack, days);
    return [sums(stack, report), el("p", { className: "note", hidden: !report.estimated }, "Some prices are estimated: the provider's were not known.")];
  });
}

const names = new Map(); // id -> name, of instances
async function readInstances() {
  if (names.size) return;
  const { instances } = await request(`/api/instances?fields=summary&limit=${LABELLED}`);
  for (const { id, name } of instances) names.set(id, name);
  const chosen = $("by").value;
  for (const name of [...new Set(instances.flatMap(({ labels }) => Object.keys(labels)))].sort()) choose(`label:${name}`);
  $("by").value = chosen;
}

function drawDays(stack, days) {
  const tops = days.map((_, index) => stack.reduce((sum, { values }) => sum + values[index], 0));
  const [top, width] = [Math.max(...tops), WIDTH / days.length];
  const bars = days.flatMap((_, index) => {
    let y = HEIGHT;
    return stack.map(({ values }, place) => {
      const height = top ? (values[index] * (HEIGHT - 6)) / top : 0;
      y -= height;
      return draw("rect", { class: `layer-${place}`, x: index * width + width * 0.1, width: width * 0.8, y, height });
    });
  });
  const hints = days.map((day, index) => {
    const texts = stack.filter(({ values }) => values[index] > 0).map(({ name, values }) => `${name}: ${money(values[index])}`);
    return draw("rect", { class: "hint", x: index * width, width, y: 0, height: HEIGHT }, draw("title", {}, [`${day}: ${money(tops[index])}`, ...texts].join("\n")));
  });
  $("chart").setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  $("chart").setAttribute("aria-label", `Cost a day: ${money(tops.at(-1))} today, at most ${money(top)}. The table has the amounts.`);
  $("chart").replaceChildren(...bars, draw("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }), ...hints);
  const [from, most] = $("chart").nextElementSibling.children;
  setText(from, new Date(days[0]).toLocaleDateString([], { day: "numeric", month: "short", timeZone: "UTC" }));
  setText(most, `at most ${money(top)} a day`);
}

function sums(stack, report) {
  const rows = stack.map(({ name, today, week, all }, place) => [
    el("span", { className: "named" }, draw("svg", { class: "key", viewBox: "0 0 1 1", "aria-hidden": "true" }, draw("rect", { class: `layer-${place}`, width: 1, height: 1 })), name),
    money(today), money(week), money(all)]);
  const last = [el("b", {}, "All"), ...["today", "week", "all"].map((part) => el("b", {}, money(total(stack, part))))];
  last[3].append(el("small", {}, ` ${range(report.total)}`));
  return table(`Costs of ${DAYS} days`, [$("by").selectedOptions[0].textContent, "Today", "7 days", "30 days"], [...rows, last]);
}

// A page without a key may link to a file; with one, the request needs its header.
async function download(format) {
  const parts = [];
  try {
    await readText(`/api/costs/export?format=${format}&from=${daysUntil(Date.now())[0]}`, { onText: (text) => parts.push(text), accept: "text/csv" });
  } catch (error) {
    notice(error.message);
    return;
  }
  const address = URL.createObjectURL(new Blob(parts, { type: "text/csv" }));
  el("a", { href: address, download: `corral-costs-${format === "focus" ? "focus-" : ""}${daysUntil(Date.now())[0]}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
