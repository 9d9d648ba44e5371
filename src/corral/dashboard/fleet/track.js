// The progress of an instance as list items: the steps of its last operation with their times.

import { el } from "../shared/dom.js";
import { COMING_UP, GOING, clock, span, words } from "../shared/format.js";

export function trackOf(data) {
  const operation = data.operation;
  const going = GOING[operation?.kind];
  if (going) {
    return going.map((word) => {
      const reached = word === going[1] ? data.status === word : true;
      const at = word === "exited" ? data.stoppedAt : null;
      return step(words(word), reached ? (data.status === word && word === going[0] ? "now" : "done") : "ahead", at ? clock(at) : "");
    });
  }
  const stamps = operation?.phases ?? {};
  const path = operation && operation.kind !== "create" ? [["startRequested", `${operation.kind} requested`], ...COMING_UP.slice(1)] : COMING_UP;
  const shown = path.filter(([stamp], index) => index > 0 || operation?.kind === "create" || !operation || stamps[stamp]);
  const began = Date.parse(stamps[shown[0][0]] ?? data.createdAt);
  const last = shown.findLastIndex(([stamp]) => stamps[stamp]);
  const ended = data.status === "failed" || operation?.status === "failed";
  return shown.map(([stamp, word], index) => {
    const at = stamps[stamp];
    const state = index === last && !stamps.ready ? (ended ? "failed" : "now") : index <= last ? "done" : "ahead";
    const when = !at ? "" : index === 0 ? clock(at) : `+${span(Date.parse(at) - began)}`;
    return step(word, state, when, at);
  });
}

function step(word, state, when, at) {
  const node = el("li", { data: { step: state } }, word, el("span", { className: "at" }, when || "\u00a0"));
  if (state === "now") node.setAttribute("aria-current", "step");
  if (at) node.title = new Date(at).toLocaleString();
  return node;
}
