// The newest events.

import { request } from "../shared/api.js";
import { $, el } from "../shared/dom.js";
import { textOf, toneOf, wordOf } from "../shared/events.js";
import { clock } from "../shared/format.js";
import { pageOf } from "../shared/root.js";
import { shortLocal } from "../shared/time.js";

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
  const [word, text] = [wordOf(event), textOf(event, shortLocal)];
  const looks = JSON.stringify([event.instanceId, word, text]);
  if ($("feed").firstElementChild?.dataset.looks === looks) return;
  $("feed").prepend(el("li", { data: { seq: event.seq, looks, tone: toneOf(event) } },
    el("time", { dateTime: event.timestamp }, clock(event.timestamp)), about(event), " ",
    el("span", { className: "word" }, word), el("p", {}, text)));
  if ($("feed").childElementCount > FEED) $("feed").lastElementChild.remove();
}

// The instance as a link; the event of a budget or of the account names it.
function about({ instanceId, data }) {
  if (instanceId) return el("a", { href: pageOf(instanceId) }, String(data.name ?? instanceId));
  return el("b", {}, String(data.budget ?? "account"));
}
