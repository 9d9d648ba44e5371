// Which instances are shown and in what order: the filter text, Active or All, and the sorted column. All are kept in
// the address of the page.

import { $, el, setText } from "../shared/dom.js";
import { ACTIVE, TONES, words } from "../shared/format.js";
import { known, readAll, readMatching } from "./instances.js";
import { asQuery, matches, parse, withTerm } from "./query.js";

const { compare } = new Intl.Collator("en", { numeric: true });
const byText = (read) => (a, b) => compare(read(a), read(b));
const byAge = (a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0);
const COLUMNS = {
  status: byText((data) => data.status),
  name: byText((data) => data.name),
  gpu: byText((data) => `${data.productName} ${data.gpuNum}`),
  region: byText((data) => data.region),
  price: (a, b) => (a.billed ? a.price ?? 0 : -1) - (b.billed ? b.price ?? 0 : -1),
  age: byAge,
  owner: byText((data) => data.createdBy ?? ""),
};
const DEFAULT = { column: "age", down: true }; // newest first

let sort = DEFAULT;
let query = parse("");
let onChange = () => {};

export function begin(changed) {
  onChange = changed;
  restore();
  window.addEventListener("popstate", () => {
    restore();
    onChange();
  });
  $("find").addEventListener("input", change);
  for (const radio of radios()) radio.addEventListener("change", change);
  for (const head of heads()) head.firstElementChild.addEventListener("click", () => sortBy(head.dataset.sort));
}

// The instances to show, in order.
export function shown() {
  if (query.problems.length) return [];
  const now = Date.now();
  const all = showsAll();
  const found = [...known.values()].filter((data) => (all || data.status !== "terminated") && matches(query.terms, data, now));
  const order = COLUMNS[sort.column];
  return found.sort((a, b) => (sort.down ? order(b, a) : order(a, b)) || byAge(b, a) || (a.id < b.id ? 1 : -1));
}

export const isFiltered = () => $("find").value.trim() !== "";
export const isValid = () => !query.problems.length;
export const showsAll = () => radios().find((radio) => radio.checked).value === "all";

export function showChips() {
  const counts = new Map();
  for (const { status } of known.values()) counts.set(status, (counts.get(status) ?? 0) + 1);
  const present = ACTIVE.filter((status) => counts.has(status));
  const chosen = query.terms.filter(({ name, negated }) => name === "status" && !negated).flatMap(({ values }) => values);
  const focused = $("by-status").contains(document.activeElement) ? document.activeElement.dataset.status : null;
  $("by-status").replaceChildren(...present.map((status) => el("li", {}, chip(status, counts.get(status), chosen.includes(status)))));
  if (focused) $("by-status").querySelector(`[data-status="${focused}"]`)?.focus();
}

function chip(status, count, chosen) {
  const made = el("button", { type: "button", className: "badge", data: { status, tone: TONES[status] ?? "busy" } }, `${count} ${words(status)}`);
  made.setAttribute("aria-pressed", String(chosen));
  made.addEventListener("click", () => {
    $("find").value = withTerm($("find").value, "status", chosen ? "" : status);
    change();
  });
  return made;
}

function sortBy(column) {
  const first = ["price", "age"].includes(column); // descending at first: the dearest, the newest
  sort = { column, down: sort.column === column ? !sort.down : first };
  change();
}

function change() {
  read();
  const params = new URLSearchParams();
  if (isFiltered()) params.set("q", $("find").value.trim());
  if (showsAll()) params.set("show", "all");
  if (sort.column !== DEFAULT.column || sort.down !== DEFAULT.down) params.set("sort", `${sort.down ? "-" : ""}${sort.column}`);
  history.replaceState(null, "", params.size ? `?${params}` : location.pathname);
  onChange();
}

function restore() {
  const params = new URLSearchParams(location.search);
  $("find").value = params.get("q") ?? "";
  for (const radio of radios()) radio.checked = radio.value === (params.get("show") === "all" ? "all" : "active");
  const [, minus, column] = /^(-?)(\w+)$/.exec(params.get("sort") ?? "") ?? [];
  sort = Object.hasOwn(COLUMNS, column ?? "") ? { column, down: minus === "-" } : DEFAULT;
  read();
}

function read() {
  query = parse($("find").value);
  $("find-problem").hidden = isValid();
  setText($("find-problem"), query.problems.join(" "));
  $("find").setAttribute("aria-invalid", String(!isValid()));
  if (showsAll() || query.terms.some(({ name, values }) => name === "status" && values.includes("terminated"))) readAll();
  readMatching(asQuery(query.terms));
  for (const head of heads()) {
    if (head.dataset.sort === sort.column) head.setAttribute("aria-sort", isDescending() ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

const isDescending = () => (sort.column === "age" ? !sort.down : sort.down); // the newest has the lowest age
const radios = () => [...document.getElementsByName("show")];
const heads = () => [...document.querySelectorAll("th[data-sort]")];
