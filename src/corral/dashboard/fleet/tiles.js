// The figures at the top, read every 5 s, and the two charts, read every 30 s.

import { drawCost, drawReady } from "./charts.js";
import { known } from "./fleet.js";
import { request } from "../shared/api.js";
import { $, setText } from "../shared/dom.js";
import { money, plural, span, words } from "../shared/format.js";

const VITALS_MS = 5000;
const HISTORY_EVERY = 6; // vitals
const HOURS = [1, 6, 24]; // how far back a chart may look: no further than there is something to see

let turn = 0;

export function begin() {
  readVitals();
}

async function readVitals() {
  try {
    const [health, numbers, { caches }] = await Promise.all([request("/health"), request("/api/metrics"), request("/api/cache/stats")]);
    showNumbers(numbers);
    showCaches(Object.values(caches));
    showProvider(health, numbers.provider);
    if (turn++ % HISTORY_EVERY === 0 && !document.hidden) await readHistory();
  } catch {
    // the header shows that the service does not answer
  }
  setTimeout(readVitals, turn === 1 && !known.size ? 500 : VITALS_MS); // the first look may come before the instances
}

async function readHistory() {
  const oldest = Math.min(Date.now(), ...[...known.values()].map(({ data }) => Date.parse(data.createdAt)));
  const hours = HOURS.find((each) => Date.now() - oldest < each * 3600000) ?? HOURS.at(-1);
  const history = await request(`/api/metrics/history?hours=${hours}`);
  drawCost($("cost-chart"), history);
  drawReady($("ready-chart"), history);
  setText($("rate-note"), `${money(history.usd)} in the last ${hours === 1 ? "hour" : `${hours} hours`}`);
}

function showNumbers({ usdPerHour, timeToReady, readinessLag, queue, webhooks }) {
  setText($("rate"), money(usdPerHour));
  setText($("ready"), figure(timeToReady.p50Ms));
  setText($("ready-note"), timeToReady.p90Ms === null ? "from request to ready" : `nine in ten: ${span(timeToReady.p90Ms)}`);
  setText($("lag"), figure(readinessLag.p50Ms));
  setText($("lag-note"), readinessLag.p90Ms === null ? "from running to ready" : `running to ready; nine in ten ${span(readinessLag.p90Ms)}`);
  setText($("queue"), `${queue.pending} waiting`);
  setText($("queue-note"), `${queue.processing} running, ${queue.failed} failed${queue.oldestPendingAgeMs > 1000 ? `, oldest waits ${span(queue.oldestPendingAgeMs)}` : ""}`);
  setText($("webhooks"), `${webhooks.pending} to send`);
  setText($("webhooks-note"), `${webhooks.failed24h} failed today`);
}

function showCaches(caches) {
  const sum = (field) => caches.reduce((total, cache) => total + cache[field], 0);
  const lookups = sum("hits") + sum("misses");
  setText($("caches"), lookups ? `${Math.round((100 * sum("hits")) / lookups)} % hits` : "idle");
  setText($("caches-note"), `${plural(sum("size"), "value")} held`);
}

function showProvider({ services, dependencies }, { breaker, budgetPerMinute, callsLastMinute }) {
  $("simulator").hidden = dependencies.novitaApi?.kind !== "simulator";
  const state = `breaker ${words(breaker.toLowerCase())}`;
  const down = Object.keys(services).filter((name) => services[name] !== "up").map((name) => `${name} is down`);
  setText($("breaker"), state);
  $("breaker").dataset.tone = breaker === "CLOSED" && !down.length ? "good" : "bad";
  $("budget-used").max = budgetPerMinute;
  $("budget-used").value = Math.min(callsLastMinute, budgetPerMinute);
  setText($("budget"), [`${callsLastMinute} of ${budgetPerMinute} calls a minute`, ...down].join(", "));
}

const figure = (ms) => (ms === null ? "–" : span(ms));
