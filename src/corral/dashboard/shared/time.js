// Points in time: local with the zone, and relative ones that stay right while the page is open.

import { el, setText } from "./dom.js";
import { span } from "./format.js";

const LOCAL = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZoneName: "short" };

const withYear = (at, parts) => new Date(at).toLocaleString([], { ...parts, year: new Date(at).getFullYear() === new Date().getFullYear() ? undefined : "numeric" });

export const local = (at) => withYear(at, LOCAL);

// Without seconds and zone, for a time that is days or hours away.
export const shortLocal = (at) => withYear(at, { ...LOCAL, second: undefined, timeZoneName: undefined });

export function moment(at) {
  return el("time", { dateTime: at }, local(at));
}

// How long ago *at* was, without fractions of a second.
export function age(at, suffix = " ago") {
  return ticking(el("time", { dateTime: at, title: local(at) }), (now) => since(at, now, suffix));
}

// The time between *from* and *to*; without *to*, the time since *from* so far.
export function elapsed(from, to) {
  if (to) return el("span", {}, span(Date.parse(to) - Date.parse(from)));
  return ticking(el("span"), (now) => since(from, now, " so far"));
}

function since(at, now, suffix) {
  const ms = Math.max(0, now - Date.parse(at));
  return ms < 1000 ? `0 s${suffix}` : `${span(ms).replace(/\.\d/, "")}${suffix}`;
}

const texts = new WeakMap(); // node -> the function that returns its text at a time

// Keeps the text of *node* at what *textAt* returns for the present time in milliseconds. One timer serves all nodes of
// the page; a hidden tab has none of it, and is right again when it is shown.
export function ticking(node, textAt) {
  node.dataset.ticks = "";
  texts.set(node, textAt);
  setText(node, textAt(Date.now()));
  return node;
}

function tick() {
  if (document.hidden) return;
  const now = Date.now();
  for (const node of document.querySelectorAll("[data-ticks]")) setText(node, texts.get(node)(now));
}

setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);
