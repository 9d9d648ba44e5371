// The newest events.

import { request } from "../shared/api.js";
import { $, el } from "../shared/dom.js";
import { TONES, clock, words } from "../shared/format.js";
import { pageOf } from "../shared/root.js";

const FEED = 100; // events kept on the page

export async function recall() {
  try {
    const { events } = await request(`/api/events?last=${FEED / 2}`);
    const later = [...$("feed").children].filter(({ dataset }) => Number(dataset.seq) > (events.at(-1)?.seq ?? 0)); // the stream was faster
    $("feed").replaceChildren();
    for (const event of events) add(event);
    $("feed").prepend(...later);
  } catch {
    // the header shows that the service does not answer; the stream brings the next events
  }
}

// Shows *event*, unless it looks the same as the one before: a start has an event of its own beside that of the status.
export function add(event) {
  const text = event.error ? `${event.error.code}: ${event.error.message}` : event.reason;
  const looks = JSON.stringify([event.instanceId, event.status, text]);
  if ($("feed").firstElementChild?.dataset.looks === looks) return;
  $("feed").prepend(el("li", { data: { seq: event.seq, looks, tone: TONES[event.status] ?? "busy" } },
    el("time", { dateTime: event.timestamp }, clock(event.timestamp)), el("a", { href: pageOf(event.instanceId) }, String(event.data.name ?? event.instanceId)), " ",
    el("span", { className: "word" }, words(event.status)), el("p", {}, text)));
  if ($("feed").childElementCount > FEED) $("feed").lastElementChild.remove();
}
