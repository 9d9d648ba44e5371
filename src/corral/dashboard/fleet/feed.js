// The newest events.

import { request } from "../shared/api.js";
import { $, el } from "../shared/dom.js";
import { TONES, clock, words } from "../shared/format.js";

const FEED = 100; // events kept on the page

export async function recall() {
  const { events } = await request(`/api/events?last=${FEED / 2}`);
  $("feed").replaceChildren(...events.reverse().map(line));
}

export function add(event) {
  $("feed").prepend(line(event));
  if ($("feed").childElementCount > FEED) $("feed").lastElementChild.remove();
}

function line(event) {
  return el("li", { data: { seq: event.seq, tone: TONES[event.status] ?? "busy" } },
    el("time", { dateTime: event.timestamp }, clock(event.timestamp)), el("b", {}, String(event.data.name ?? event.instanceId)), " ",
    el("span", { className: "word" }, words(event.status)),
    el("p", {}, event.error ? `${event.error.code}: ${event.error.message}` : event.reason));
}
