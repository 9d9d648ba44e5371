// Parts that several pages show: tables, lists of facts, copy buttons, and panels that report their own errors.

import { $, el, notice } from "./dom.js";
import { ROOT } from "./root.js";

// A table with a heading for each cell, because on a phone every row becomes a card.
export function table(label, columns, rows) {
  const head = el("tr", { role: "row" }, ...columns.map((name) => el("th", { scope: "col", role: "columnheader" }, name)));
  const body = rows.map((cells) => el("tr", { role: "row" },
    ...cells.map((cell, index) => el("td", { role: "cell", data: { label: columns[index] } }, cell ?? "–"))));
  return el("table", { role: "table", "aria-label": label }, el("thead", { role: "rowgroup" }, head), el("tbody", { role: "rowgroup" }, ...body));
}

export function facts(pairs) {
  return el("dl", { className: "pairs" }, ...pairs.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export function badge(text, tone) {
  return el("span", { className: "badge", data: { tone } }, text);
}

export function instanceLink(id, text = id) {
  return el("a", { href: `${ROOT}/instances/${encodeURIComponent(id)}` }, text);
}

// *text* with a button that copies it; *what* names it for a screen reader. A secret is not repeated in the notice.
export function copyable(text, what, { isSecret = false } = {}) {
  const shown = el("code", {}, text);
  const button = el("button", { type: "button", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      notice(`Copied: ${isSecret || text.length > 80 ? what : text}`);
    } catch {
      getSelection().selectAllChildren(shown); // an unencrypted page has no clipboard: leave the key press to the person
      notice("Selected: copy it with Ctrl+C.");
    }
  });
  return el("span", { className: "copyable" }, shown, button);
}

export const bodyOf = (id) => $(id).querySelector(".body");

const shown = new WeakMap(); // node -> the data it shows

// Fills *node* with the nodes that *make* returns, unless it shows *data* already. The focus stays on the control with
// the same name, or goes to the heading of the panel when there is none any more.
export function render(node, data, make) {
  const text = JSON.stringify(data);
  if (shown.get(node) === text) return;
  shown.set(node, text);
  const name = node.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  node.replaceChildren(...make());
  if (name === null) return;
  const same = [...node.querySelectorAll("a, button, [tabindex]")].find((each) => nameOf(each) === name);
  if (same) same.focus();
  else focusHeading(node.closest(".panel"));
}

const nameOf = (node) => node.getAttribute("aria-label") ?? node.textContent;

// Keeps the focus in the panel of the last click when a dialog closes whose button was removed meanwhile.
export function keepFocus() {
  let panel = null;
  document.addEventListener("click", ({ target }) => (panel = target.closest(".panel") ?? panel));
  document.addEventListener("close", () => document.activeElement === document.body && panel && focusHeading(panel), true);
}

export function focusHeading(panel) {
  const heading = panel.querySelector("h1, h2");
  heading.tabIndex = -1;
  heading.focus();
}

// Awaits *load*, which fills the panel *id*. An error is shown in the panel, in the API's words; without a code it is the
// connection, which the header shows, and the panel keeps what it has.
export async function guarded(id, load) {
  const problem = $(id).querySelector(".refusal") ?? $(id).appendChild(el("p", { className: "problem refusal", role: "status", hidden: true }));
  try {
    await load();
    problem.hidden = true;
  } catch (error) {
    if (!error.code) return;
    for (const body of $(id).querySelectorAll(".body")) if (body.textContent === "Loading…") body.replaceChildren();
    problem.hidden = false;
    problem.replaceChildren(...problemText(error));
  }
}

export function problemText({ code, message, nextStep }) {
  return [el("code", {}, code), ` ${message}`, ...(nextStep ? [el("br"), el("b", {}, "Next: "), nextStep] : [])];
}
