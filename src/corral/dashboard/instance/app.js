// One instance: read once, then again when the event stream reports a change of it.
//
// Rule: text from the API is set with `textContent`, never as markup.

import { request } from "../shared/api.js";
import { $, el, setText } from "../shared/dom.js";
import * as frame from "../shared/frame.js";
import { guarded, keepFocus, problemText, render } from "../shared/parts.js";
import { deliveryTable } from "../shared/deliveries.js";
import { ROOT } from "../shared/root.js";
import { live } from "../shared/stream.js";
import { showPull } from "../shared/pull.js";
import { showConnection, showHealth } from "./connection.js";
import * as credentials from "./credentials.js";
import { showEvents, showOperations, showTimeline } from "./history.js";
import * as labels from "./labels.js";
import * as lease from "./lease.js";
import * as logs from "./logs.js";
import * as placement from "./placement.js";
import { showAbout, showTop, showWhy } from "./summary.js";
import * as use from "./use.js";

const GATHER_MS = 200; // events within this time are handled by one read
const MOVING_MS = 3000; // how often what changes without an event is read: checks, attempts to deliver
const IDLE_MS = 30000; // how often one that may become idle is read: that has no event before a notice
const SETTLED = ["ready", "exited", "terminated", "failed"];
const EVENTS = 500; // the API's largest page
const DELIVERIES = 20;

const path = `/api/instances/${location.pathname.slice(`${ROOT}/instances/`.length).replace(/\/$/, "")}`;
let [data, events, pending] = [null, [], false];

frame.begin();
placement.begin();
credentials.begin(path);
labels.begin(path, () => refresh());
lease.begin(path, () => refresh());
logs.begin(path);
use.begin(path);
keepFocus();
open();

async function open() {
  try {
    data = await request(path);
  } catch (error) {
    if (error.code === "INSTANCE_NOT_FOUND") return showMissing(error);
    setText($("facts"), error.code === "UNAUTHORIZED" ? "Sign in to see this instance." : `${error.message}; trying again…`);
    return setTimeout(open, MOVING_MS);
  }
  $("found").hidden = false;
  live({ load, onEvent, instanceId: data.id });
  setInterval(() => !document.hidden && (pending || !SETTLED.includes(data.status)) && refresh(), MOVING_MS);
  setInterval(() => !document.hidden && data.lease?.idle && isRunning(data) && refresh(), IDLE_MS);
}

function showMissing(error) {
  document.title = "Not found · Corral";
  setText($("name"), "404: there is no such instance");
  $("status").hidden = $("link").hidden = true;
  $("facts").replaceChildren(...problemText(error), el("br"), "It may belong to another installation, or its id is incomplete.");
  $("verbs").append(el("a", { className: "button primary", href: `${ROOT}/` }, "All instances"));
}

async function load() {
  events = (await request(`${path}/events?last=${EVENTS}`)).events;
  await read();
}

function onEvent(event) {
  if (events.some(({ seq }) => seq === event.seq)) return;
  events.push(event);
  gathering ??= setTimeout(refresh, GATHER_MS);
}

let gathering = null;
let reading = Promise.resolve();
function refresh() {
  gathering = null;
  return (reading = reading.then(read).catch(() => {})); // one read at a time: an older answer never lands on a newer one
}

async function read() {
  const [next, { operations }, { stuck }] = await Promise.all([request(path), request(`${path}/operations`), request("/api/orphans")]);
  data = next;
  document.title = `${data.name} · Corral`;
  showTop(data, () => refresh());
  showWhy(data, events, stuck.find(({ instanceId }) => instanceId === data.id));
  showTimeline(data, events, events.length === EVENTS);
  if (!isRunning(data)) credentials.hide();
  $("login").hidden = !isRunning(data);
  showConnection(data);
  showHealth(data);
  placement.showPlacement(data);
  showAbout(data);
  labels.showLabels(data);
  lease.showLease(data);
  use.showUse(data);
  logs.suggest(isRunning(data) ? "instance" : "system");
  showOperations(operations);
  showEvents(events);
  placement.showJson(data);
  await Promise.all([guarded("deliveries-panel", showDeliveries), showPull($("pull"), data)]);
}

const isRunning = ({ status }) => ["running", "health_checking", "ready"].includes(status);

async function showDeliveries() {
  const { deliveries, total } = await request(`/api/webhooks/deliveries?instanceId=${encodeURIComponent(data.id)}&limit=${DELIVERIES}`);
  pending = deliveries.some(({ status }) => status === "pending");
  const all = el("a", { href: `${ROOT}/operations?instance=${encodeURIComponent(data.id)}#deliveries` }, "all");
  render($("deliveries"), [deliveries, total], () => (total
    ? [deliveryTable(deliveries, { onSent: refresh }), ...(total > deliveries.length ? [el("p", { className: "note" }, `The newest ${deliveries.length} of ${total}; see `, all, ".")] : [])]
    : [el("p", { className: "note" }, "None: no webhook is set for it.")]));
}
