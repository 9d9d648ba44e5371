// Points in time: local with the zone, and relative ones that stay right while the page is open.

import { el, setText } from "./dom.js";
import { span } from "./format.js";

const LOCAL = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZoneName: "short" };

export const local = (at) => new Date(at).toLocaleString([], { ...LOCAL, year: new Date(at).getFullYear() === new Date().getFullYear() ? undefined : "numeric" });

export function moment(at) {
  return el("time", { dateTime: at }, local(at));
}

// How long ago *at* was, without fractions of a second.
export function age(at, suffix = " ago") {
  return ticking(el("time", { dateTime: at, title: local(at), data: { since: at, suffix } }));
}

// The time between *from* and *to*; without *to*, the time since *from* so far.
export function elapsed(from, to) {
  if (to) return el("span", {}, span(Date.parse(to) - Date.parse(from)));
  return ticking(el("span", { data: { since: from, suffix: " so far" } }));
}

function ticking(node) {
  const ms = Math.max(0, Date.now() - Date.parse(node.dataset.since));
  setText(node, ms < 1000 ? `0 s${node.dataset.suffix}` : `${span(ms).replace(/\.\d/, "")}${node.dataset.suffix}`);
  return node;
}

setInterval(() => document.querySelectorAll("[data-since]").forEach(ticking), 1000);
