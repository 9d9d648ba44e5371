// The table. Rows are made as they scroll into view, a hundred at a time, so a thousand instances cost little more.

import { $, setText } from "../shared/dom.js";
import { money, plural } from "../shared/format.js";
import * as cards from "./cards.js";
import * as filters from "./filters.js";
import { known, progress } from "./instances.js";
import { makeRow, showAge, showRow } from "./row.js";
import * as selection from "./selection.js";

const CHUNK = 100;
const AGE_MS = 10000; // how often ages are updated

const rows = new Map(); // instance id -> its row, of those that were made
const outdated = new Set(); // ids of instances that changed since their row was shown
let limit = CHUNK;
let planned = false;

export function begin() {
  new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && showMore(), { rootMargin: "600px" }).observe($("more"));
  setInterval(() => !document.hidden && rows.forEach((row, id) => known.has(id) && showAge(row, known.get(id))), AGE_MS);
}

// Shows what changed before the next frame: many changes at once cost one update.
export function update(ids) {
  for (const id of ids) outdated.add(id);
  if (planned) return;
  planned = true;
  setTimeout(render);
}

// Shows another selection of instances, from its start.
export function refilter() {
  limit = CHUNK;
  render();
}

function showMore() {
  if (limit >= $("rows").childElementCount + CHUNK || $("table").hidden) return;
  limit += CHUNK;
  render();
}

function render() {
  planned = false;
  const shown = filters.shown();
  for (const id of outdated) if (rows.has(id) && known.has(id)) showRow(rows.get(id), known.get(id));
  outdated.clear();
  arrange(shown.slice(0, limit));
  selection.update(shown);
  cards.update(shown);
  filters.showChips();
  summarise(shown);
}

function arrange(visible) {
  const body = $("rows");
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  const at = focused ? [...body.children].indexOf(focused.closest("tr")) : -1;
  const wanted = new Set(visible.map(({ id }) => id));
  for (const [id, row] of rows) {
    if (wanted.has(id)) continue;
    row.element.remove();
    if (!known.has(id)) rows.delete(id);
  }
  let place = body.firstElementChild;
  for (const data of visible) {
    const { element } = rowOf(data);
    if (element === place) place = place.nextElementSibling;
    else body.insertBefore(element, place);
  }
  if (focused && document.activeElement !== focused) keepFocus(focused, at);
}

function rowOf(data) {
  if (!rows.has(data.id)) {
    const row = makeRow(data.id);
    selection.watch(row.tick, data.id);
    showRow(row, data);
    rows.set(data.id, row);
  }
  return rows.get(data.id);
}

// The focus of a row that was removed goes to the same control of the row in its place.
function keepFocus(focused, at) {
  if (focused.isConnected) return focused.focus({ preventScroll: true });
  const row = $("rows").children[Math.min(at, $("rows").childElementCount - 1)];
  (row?.querySelector(focused.localName) ?? $("find")).focus();
}

function summarise(shown) {
  const active = [...known.values()].filter(({ status }) => status !== "terminated");
  const cost = shown.reduce((sum, data) => sum + (data.billed ? data.price ?? 0 : 0), 0);
  const matching = filters.isFiltered() ? `${shown.length} of ${plural(known.size, "instance")}` : plural(shown.length, "instance");
  setText($("total"), `${matching}${cost ? `, ${money(cost)}/h` : ""}${progress.loaded || progress.total === null ? "" : `; ${known.size} of ${progress.total} loaded`}`);
  $("table").hidden = !shown.length;
  setText($("more"), shown.length > limit ? `${shown.length - limit} more below` : "");
  $("empty").hidden = shown.length > 0 || !progress.loaded;
  setText($("empty-title"), filters.isFiltered() || active.length ? "No matching instances" : "No instances yet");
  setText($("empty-text"), filters.isFiltered() ? "Change or clear the filter." : "See offers and prices before you create one.");
  $("empty-new").hidden = filters.isFiltered();
}
