// All instances: read once, then only those that changed are read again.

import { makeRow, showAge, showRow } from "./rows.js";
import { request } from "../shared/api.js";
import { $, el, setText } from "../shared/dom.js";
import { ACTIVE, TONES, words } from "../shared/format.js";

const PAGE = 500; // the API's largest page
const MANY = 25; // more changed instances than this are cheaper read as a list
const GATHER_MS = 200; // events within this time are handled by one read
const LATER_MS = 5000; // delay before a failed read is repeated

export const known = new Map(); // instance id -> {data, row, seen}
const changed = new Set(); // instance ids to read again

export function begin() {
  for (const status of ACTIVE) $("show").append(el("option", { value: status }, words(status)));
  for (const control of [$("find"), $("show")]) control.addEventListener("input", applyFilters);
  setInterval(() => known.forEach(({ row, data }) => row.element.hidden || showAge(row, data)), 1000);
}

function applyFilters() {
  known.forEach(applyFilter);
  summarise();
}

async function everyInstance() {
  const newest = await request(`/api/instances?limit=${PAGE}`);
  if (newest.total <= PAGE) return newest.instances;
  // Terminated instances accumulate: read the active ones by status so that none falls off the page.
  const active = await Promise.all(ACTIVE.map(async (status) => {
    const found = [];
    for (let total = 1; found.length < total; ) {
      const page = await request(`/api/instances?status=${status}&limit=${PAGE}&offset=${found.length}`);
      if (!page.instances.length) break;
      found.push(...page.instances);
      total = page.total;
    }
    return found;
  }));
  return [...newest.instances, ...active.flat()];
}

function upsert(data) {
  const entry = known.get(data.id) ?? { data: null, row: makeRow(data.id, () => known.get(data.id).data, look), seen: "" };
  const seen = JSON.stringify({ ...data, lastSeenAt: null });
  const [isNew, isSame] = [entry.data === null, entry.seen === seen];
  Object.assign(entry, { data, seen });
  if (isSame && !entry.row.details.open) return false;
  known.set(data.id, entry);
  showRow(entry.row, data);
  applyFilter(entry);
  return isNew;
}

function forget(id) {
  known.get(id).row.element.remove();
  known.delete(id);
}

function arrange() {
  const inOrder = [...known.values()].sort((a, b) => (a.data.createdAt < b.data.createdAt ? 1 : -1));
  let place = $("list").firstElementChild;
  for (const { row } of inOrder) {
    if (row.element === place) place = place.nextElementSibling;
    else $("list").insertBefore(row.element, place);
  }
}

function summarise() {
  const counts = new Map();
  for (const { data } of known.values()) {
    if (data.status !== "terminated") counts.set(data.status, (counts.get(data.status) ?? 0) + 1);
  }
  const active = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const present = ACTIVE.filter((status) => counts.has(status));
  setText($("count"), String(active));
  $("mix").replaceChildren(...present.map((status) => {
    const part = el("span", { data: { tone: TONES[status] ?? "busy" } });
    part.style.flexGrow = counts.get(status);
    return part;
  }));
  $("by-status").replaceChildren(...present.map((status) => el("li", {}, chip(status, counts.get(status)))));
  $("empty").hidden = [...known.values()].some(({ row }) => !row.element.hidden);
  setText($("empty-title"), active ? "No matching instances" : "No instances yet");
  setText($("empty-text"), active ? "Change the search, or show all active instances." : "See offers and prices before you create one.");
  $("empty-new").hidden = active > 0;
}

function chip(status, count) {
  const made = el("button", { type: "button", className: "badge", data: { tone: TONES[status] ?? "busy" } }, `${count} ${words(status)}`);
  const chosen = $("show").value === status;
  made.setAttribute("aria-pressed", String(chosen));
  made.title = chosen ? "Show all active" : `Show only ${words(status)}`;
  made.addEventListener("click", () => {
    $("show").value = chosen ? "active" : status;
    applyFilters();
    [...$("by-status").querySelectorAll("button")].find((b) => b.textContent.endsWith(` ${words(status)}`))?.focus();
  });
  return made;
}

function applyFilter({ data, row }) {
  const [wanted, status] = [$("find").value.trim().toLowerCase(), $("show").value];
  const shown = status === "" || (status === "active" ? data.status !== "terminated" : data.status === status);
  const text = `${data.name} ${data.id} ${data.region} ${data.productName} ${data.status} ${data.novitaInstanceId ?? ""}`.toLowerCase();
  row.element.hidden = !(shown && text.includes(wanted));
}

export async function loadAll() {
  const before = [...known.keys()];
  const found = await everyInstance();
  const present = new Set(found.map((data) => data.id));
  for (const id of before) if (!present.has(id)) forget(id);
  const added = found.map(upsert).some(Boolean);
  if (added) arrange();
  summarise();
}

let reading = Promise.resolve();
export function inTurn(work) {
  return (reading = reading.then(work, work)); // one read at a time: an older answer never lands on a newer one
}

let gathering = null;
export function look(id, delay = GATHER_MS) {
  changed.add(id);
  gathering ??= setTimeout(() => inTurn(readChanged), delay);
}

async function readChanged() {
  const ids = [...changed];
  changed.clear();
  gathering = null;
  if (ids.length > MANY) return loadAll().catch(() => ids.forEach((id) => look(id, LATER_MS)));
  const answers = await Promise.allSettled(ids.map((id) => request(`/api/instances/${encodeURIComponent(id)}`)));
  if (answers.map(({ value }) => value !== undefined && upsert(value)).some(Boolean)) arrange();
  answers.forEach(({ reason }, index) => reason && reason.code !== "INSTANCE_NOT_FOUND" && look(ids[index], LATER_MS));
  summarise();
}
