// One row per instance. It is made once and changed in place, so that keyboard focus is kept.

import { dataText, endText, isDataExpiring } from "../lease/text.js";
import { el, setText } from "../shared/dom.js";
import { age, money, tone, words } from "../shared/format.js";
import { pageOf } from "../shared/root.js";
import { shortLocal, ticking } from "../shared/time.js";
import { known } from "./instances.js";
import { openMenu } from "./menu.js";

export function makeRow(id) {
  const row = {
    tick: el("input", { type: "checkbox" }), badge: el("span", { className: "badge" }), name: el("a", { href: pageOf(id) }),
    brief: el("p", { className: "brief" }), labels: el("p", { className: "labels" }), why: el("p", { className: "why" }), mark: el("span", { className: "mark", hidden: true }, "ending soon"), ends: el("p", { className: "ends" }), gpu: el("td", { className: "wide one" }), region: el("td", { className: "wide one" }),
    price: el("td", { className: "wide number" }), age: el("td", { className: "wide number" }), owner: el("td", { className: "wide" }),
    menu: el("button", { type: "button", className: "quiet", "aria-haspopup": "menu", "aria-expanded": "false" }, "⋯"),
  };
  row.menu.addEventListener("click", () => openMenu(row.menu, known.get(id)));
  row.element = el("tr", { data: { id } }, el("td", { className: "tick" }, row.tick), el("td", {}, row.badge, row.mark),
    el("td", { className: "what" }, row.name, row.brief, row.labels, row.why, row.ends), row.gpu, row.region, row.price, row.age, row.owner, el("td", { className: "dots" }, row.menu));
  return row;
}

export function showRow(row, data) {
  setText(row.badge, words(data.status));
  row.badge.dataset.tone = row.element.dataset.tone = tone(data);
  row.element.dataset.status = data.status;
  setText(row.name, data.name);
  row.tick.setAttribute("aria-label", `Select ${data.name}`);
  row.menu.setAttribute("aria-label", `Actions for ${data.name}`);
  setText(row.labels, Object.entries(data.labels).map((pair) => pair.join("=")).join("  "));
  row.labels.title = row.labels.textContent;
  row.labels.hidden = !row.labels.textContent;
  setText(row.why, whyOf(data));
  row.why.title = row.why.textContent;
  row.why.hidden = !row.why.textContent;
  showEnd(row, data);
  setText(row.gpu, `${data.gpuNum} × ${data.productName}`);
  row.gpu.title = row.gpu.textContent;
  setText(row.region, data.region);
  setText(row.price, data.billed ? money(data.price) : "");
  setText(row.owner, data.createdBy ?? "");
  showAge(row, data);
}

// The countdown to its end or, of a stopped machine, to the end of its data.
function showEnd(row, data) {
  row.mark.hidden = !data.notifiedAt;
  row.ends.hidden = !data.endsAt && !data.dataKeptUntil;
  if (row.ends.hidden) return;
  const day = data.dataKeptUntil && shortLocal(data.dataKeptUntil);
  row.ends.dataset.tone = data.notifiedAt || isDataExpiring(data, Date.now()) ? "warn" : "";
  ticking(row.ends, (now) => endText(data, now) || dataText(data, day, now));
}

export function showAge(row, data) {
  setText(row.age, age(data.createdAt));
  setText(row.brief, [`${data.gpuNum} × ${data.productName}`, data.region, ...(data.billed ? [`${money(data.price)}/h`] : []), row.age.textContent, ...(data.createdBy ? [data.createdBy] : [])].join(" · "));
}

// What an instance waits for, or what is wrong with it and what can be done.
export function whyOf({ reason, error }) {
  return reason ?? (error ? `${error.message}. ${error.nextStep}` : "");
}
