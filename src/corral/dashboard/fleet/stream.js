// The event stream: changed instances, the event feed, and the connection state.

import { inTurn, loadAll, look } from "./fleet.js";
import { EventStream } from "../shared/auth.js";
import { request } from "../shared/api.js";
import { $, el, setText } from "../shared/dom.js";
import { TONES, clock, words } from "../shared/format.js";

const FEED = 100; // events kept on the page
const REFRESH_MS = 30000; // how often everything is read again: `lastSeenAt` changes without an event

let lastUpdate = null;
let connected = false;
let answering = true;
let lastSeq = null;

export function begin() {
  setInterval(() => connected && !document.hidden && inTurn(loadAll).catch(() => {}), REFRESH_MS);
  follow();
}

export function fresh() {
  lastUpdate = new Date();
}

export function answered(yes) {
  answering = yes;
  if (yes && connected) fresh();
  showLink();
}

function showLink() {
  const live = connected && answering;
  $("link").dataset.state = live ? "live" : "lost";
  setText($("link"), live ? "live" : `reconnecting, last update ${lastUpdate ? clock(lastUpdate) : "none yet"}`);
}

function follow() {
  const stream = new EventStream(`/api/events/stream${lastSeq === null ? "" : `?after=${lastSeq}`}`);
  stream.onopen = async () => {
    try {
      await inTurn(loadAll); // after the stream is open, so that no change is missed
      connected = stream.readyState === EventStream.OPEN; // it may have closed meanwhile
      showLink();
      if (!$("feed").childElementCount) await recall();
    } catch {
      if (stream.readyState === EventStream.CLOSED) return; // `onerror` reconnects
      stream.close();
      setTimeout(follow, 1000);
    }
  };
  stream.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    lastSeq = event.seq;
    fresh();
    addToFeed(event);
    look(event.instanceId);
  };
  stream.onerror = () => {
    connected = false;
    showLink();
    if (stream.readyState === EventStream.CLOSED) setTimeout(follow, 1000); // closed: reconnect
  };
}

async function recall() {
  const { events } = await request(`/api/events?last=${FEED / 2}`);
  const present = new Set([...$("feed").children].map((line) => line.dataset.seq)); // the stream may have been faster
  $("feed").append(...events.reverse().filter((e) => !present.has(String(e.seq))).map(line));
}

function addToFeed(event) {
  $("feed").prepend(line(event));
  if ($("feed").childElementCount > FEED) $("feed").lastElementChild.remove();
}

function line(event) {
  const node = el("li", { data: { seq: event.seq, tone: TONES[event.status] ?? "busy" } },
    el("time", { dateTime: event.timestamp }, clock(event.timestamp)), el("b", {}, String(event.data.name ?? event.instanceId)), " ",
    el("span", { className: "word" }, words(event.status)),
    el("p", {}, event.error ? `${event.error.code}: ${event.error.message}` : event.reason));
  return node;
}
