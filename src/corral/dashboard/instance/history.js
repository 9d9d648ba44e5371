// What happened: the phases with their durations, the operations, and every event.

import { $, el } from "../shared/dom.js";
import { textOf, toneOf } from "../shared/events.js";
import { TONES, span, words } from "../shared/format.js";
import { badge } from "../shared/parts.js";
import { age, elapsed, local, moment, shortLocal } from "../shared/time.js";

const OUTCOMES = { completed: "good", failed: "bad", cancelled: "idle" };
const ENDED = ["completed", "failed", "cancelled"];
const STEPS = { startRequested: "requested", instanceStarting: "starting", instanceRunning: "running", healthCheckStarted: "health check", ready: "ready" };

// One entry for each phase, from the events that changed the status; *cut*: earlier events are not shown.
export function showTimeline(data, events, cut) {
  const phases = events.filter((event, index) => index === 0 || event.status !== events[index - 1].status);
  const shown = phases.map((event, index) => {
    const next = phases[index + 1];
    const [isLast, isEnd] = [!next, event.status === "terminated"];
    const node = el("li", { data: { tone: TONES[event.status] ?? "busy" } },
      el("b", {}, words(event.status)), " ", el("span", { className: "took" }, isEnd ? "" : elapsed(event.timestamp, next?.timestamp)), moment(event.timestamp),
      el("p", {}, textOf(event, shortLocal)));
    if (isLast) node.setAttribute("aria-current", "step");
    return node;
  });
  if (cut) shown.unshift(el("li", { data: { tone: "idle" } }, "Earlier phases are not shown."));
  $("timeline").replaceChildren(...shown);
}

export function showOperations(operations) {
  $("operations").replaceChildren(...operations.map(({ operationId, kind, status, phases, createdAt, error }) => el("li", {},
    el("div", { className: "line" }, el("b", {}, kind), badge(words(status), OUTCOMES[status] ?? "busy"), age(createdAt)),
    el("p", { className: "note" }, steps(kind, createdAt, phases, status)),
    error ? el("p", { className: "problem" }, `${error.code}: ${error.message}`) : null,
    el("code", { className: "note" }, operationId))));
}

function steps(kind, createdAt, phases, status) {
  const reached = Object.entries(STEPS).filter(([name]) => phases[name]).map(([name, word]) => `${word} +${span(Date.parse(phases[name]) - Date.parse(createdAt))}`);
  return reached.length ? reached.join(", ") : ENDED.includes(status) ? `requested ${local(createdAt)}` : `${kind} requested, under way`;
}

export function showEvents(events) {
  const present = new Set([...$("events").children].map((line) => line.dataset.seq));
  for (const event of events) if (!present.has(String(event.seq))) $("events").prepend(line(event));
}

function line(event) {
  return el("li", { data: { seq: event.seq, tone: toneOf(event) } },
    el("div", { className: "line" }, el("b", {}, event.event.replace("instance.", "").replaceAll("_", " ")), age(event.timestamp)),
    el("p", { className: "note" }, textOf(event, shortLocal)));
}
