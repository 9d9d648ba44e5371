// Selected instances, and what is done to all of them after one confirmation. Only what matches the filter is selected.

import { confirm } from "../shared/actions.js";
import { $, setText } from "../shared/dom.js";
import { money } from "../shared/format.js";
import * as filters from "./filters.js";
import { known, look, progress } from "./instances.js";

const selected = new Set(); // instance ids
const ticks = new Map(); // instance id -> its checkbox
let order = []; // ids of the instances shown
let last = null; // the id that was ticked last: Shift selects from there

export function begin() {
  $("select-all").addEventListener("change", () => {
    if ($("select-all").checked) for (const id of order) selected.add(id);
    else selected.clear();
    show();
  });
  $("bulk-none").addEventListener("click", clear);
  for (const button of $("bulk").querySelectorAll("[data-verb]")) {
    button.addEventListener("click", () => confirm(button.dataset.verb, instances(), sent));
  }
}

export function watch(tick, id) {
  ticks.set(id, tick);
  tick.addEventListener("click", (event) => {
    const [from, to] = [order.indexOf(last), order.indexOf(id)].sort((a, b) => a - b);
    for (const each of event.shiftKey && from >= 0 ? order.slice(from, to + 1) : [id]) {
      if (tick.checked) selected.add(each);
      else selected.delete(each);
    }
    last = id;
    show();
  });
}

// Takes the instances that are shown now; others are no longer selected.
export function update(shown) {
  order = shown.map(({ id }) => id);
  const present = new Set(order);
  for (const id of selected) if (!present.has(id)) selected.delete(id);
  for (const id of ticks.keys()) if (!known.has(id)) ticks.delete(id);
  show();
}

function show() {
  for (const [id, tick] of ticks) tick.checked = selected.has(id);
  const all = $("select-all");
  all.checked = order.length > 0 && selected.size === order.length;
  all.indeterminate = selected.size > 0 && !all.checked;
  all.disabled = !progress.loaded || !filters.isValid(); // an incomplete list must not pass for all
  $("bulk").hidden = !selected.size;
  if (!selected.size) return;
  const chosen = instances();
  const cost = chosen.reduce((sum, data) => sum + (data.billed ? data.price ?? 0 : 0), 0);
  setText($("bulk-count"), `${selected.size} selected${cost ? `, ${money(cost)}/h` : ""}`);
  for (const button of $("bulk").querySelectorAll("[data-verb]")) {
    button.disabled = !chosen.some((data) => data.allowedActions.includes(button.dataset.verb));
  }
}

function instances() {
  return order.filter((id) => selected.has(id)).map((id) => known.get(id));
}

function sent(ids) {
  for (const id of ids) {
    look(id);
    selected.delete(id);
  }
  show();
  if (!selected.size) $("confirm").addEventListener("close", () => $("select-all").focus(), { once: true }); // its button is hidden
}

function clear() {
  selected.clear();
  show();
  $("select-all").focus();
}
