// One row per instance. It is made once and changed in place, so that keyboard focus is kept.

import { confirm } from "../shared/actions.js";
import { el, notice, setText, webAddress } from "../shared/dom.js";
import { COMING_UP, GOING, clock, money, span, tone, words } from "../shared/format.js";

const VERBS = { start: "Start", restart: "Restart", stop: "Stop", delete: "Delete" };

export function makeRow(id, current, changed) {
  const outside = { className: "button", target: "_blank", rel: "noopener noreferrer" };
  const row = {
    badge: el("span", { className: "badge" }), name: el("h3"), old: el("span", { className: "badge", data: { tone: "warn" } }, "not observed recently"),
    product: el("span"), region: el("b"), price: el("b"), age: el("span"), template: el("span"),
    ssh: el("button", { type: "button" }, "Copy ssh"), jupyter: el("a", outside, "Jupyter"), terminal: el("a", outside, "Terminal"), verbs: {},
    track: el("ol", { className: "track", role: "list" }), problem: el("div", { className: "problem" }), more: el("div", { className: "more" }),
  };
  for (const [verb, word] of Object.entries(VERBS)) {
    row.verbs[verb] = el("button", { type: "button", className: verb === "delete" ? "quiet danger-text" : "quiet" }, word);
    row.verbs[verb].addEventListener("click", () => confirm(verb, [current()], ([id]) => changed(id)));
  }
  row.summary = el("summary", {}, "Details");
  row.details = el("details", {}, row.summary, row.more);
  row.element = el("li", { className: "row", id },
    el("div", { className: "head" }, row.badge, row.name, row.old,
      el("div", { className: "does" }, row.ssh, row.jupyter, row.terminal, ...Object.values(row.verbs))),
    el("p", { className: "facts" }, row.product, row.region, row.price, row.age, row.template),
    row.track, row.problem, row.details);
  row.ssh.addEventListener("click", () => copy(current().connectionDetails.ssh));
  row.details.addEventListener("toggle", () => row.details.open && fillMore(row, current()));
  return row;
}

export function showRow(row, data) {
  setText(row.badge, words(data.status));
  row.badge.dataset.tone = row.element.dataset.tone = tone(data);
  row.element.dataset.status = data.status;
  setText(row.name, data.name);
  row.old.hidden = !data.stale || data.status === "terminated";
  setText(row.product, `${data.gpuNum} × ${data.productName}`);
  setText(row.region, data.region);
  setText(row.price, data.price === null ? "price not known yet" : `${money(data.price)} per hour, ${data.billingMode === "spot" ? "spot" : "on demand"}`);
  setText(row.template, `template ${data.templateId}`);
  showAccess(row, data);
  for (const [verb, button] of Object.entries(row.verbs)) {
    button.hidden = !data.allowedActions.includes(verb);
    button.setAttribute("aria-label", `${VERBS[verb]} ${data.name}`);
  }
  row.track.replaceChildren(...steps(data));
  row.track.setAttribute("aria-label", `Progress of ${data.name}`);
  showProblem(row, data);
  if (row.details.open) fillMore(row, data);
  showAge(row, data);
}

function showAccess(row, data) {
  const { ssh, jupyter, webTerminal } = data.connectionDetails;
  const shut = ["terminated", "deleting", "exited", "stopping"].includes(data.status);
  row.ssh.hidden = !ssh || shut;
  row.ssh.setAttribute("aria-label", `Copy the ssh command of ${data.name}`);
  for (const [link, address, what] of [[row.jupyter, jupyter, "Jupyter"], [row.terminal, webTerminal, "the terminal"]]) {
    link.hidden = !webAddress(address) || shut;
    link.href = webAddress(address) ?? "#";
    link.setAttribute("aria-label", `Open ${what} of ${data.name}`);
  }
}

function showProblem(row, { error }) {
  row.problem.hidden = !error;
  if (!error) return;
  row.problem.replaceChildren(el("p", {}, el("code", {}, error.code), ` ${error.message}`), el("p", {}, el("b", {}, "Next: "), error.nextStep));
}

export function showAge(row, data) {
  const since = Date.now() - Date.parse(data.createdAt);
  const due = data.estimatedReadyTime ? Date.parse(data.estimatedReadyTime) - Date.now() : 0;
  setText(row.age, `${span(Math.max(since, 1000)).replace(/\.\d/, "")} old${due > 0 ? `, ready in about ${span(Math.max(due, 10000))}` : ""}`);
}

function steps(data) {
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

function fillMore(row, data) {
  const { placement, healthCheck } = data;
  const facts = [
    ...(data.reason ? [["Waits", data.reason]] : []),
    ...(data.spot?.noticedAt ? [["Spot", `${data.spot.status}${data.spot.reclaimAt ? `: taken back ${new Date(data.spot.reclaimAt).toLocaleString()}` : ""}`]] : []),
    ["Placed", placement.region ? `${placement.region} on ${placement.productId} for ${money(placement.price)} per hour: the cheapest available, preferred regions first` : "not placed yet"],
    ...placement.tried.map((t) => ["Rejected", `${t.region}${t.productId ? ` ${t.productId}` : ""}${t.price === null ? "" : ` at ${money(t.price)}`}: ${t.reason}`]),
    ...data.portMappings.map((p) => ["Port", `${p.port} ${p.type} ${p.endpoint ?? "no address now"}`]),
    ...(healthCheck?.endpoints ?? []).map((e) => ["Check", `${e.port} ${e.type}: ${e.status}${e.error ? `, ${e.error.message} (${words(e.error.category)})` : ` in ${e.responseTime} ms`}, ${clock(e.lastChecked)}`]),
    ["Disk", `${data.rootfsSize} GB`],
    ["Created", new Date(data.createdAt).toLocaleString()],
    ["Last seen", data.lastSeenAt ? new Date(data.lastSeenAt).toLocaleString() : "never"],
    ["Ids", [data.id, data.novitaInstanceId].filter(Boolean).join(", at the provider ")],
  ];
  row.more.replaceChildren(el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied: ${text}`);
  } catch {
    notice(text); // the browser forbids it: show the text instead
  }
}
