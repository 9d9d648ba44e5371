// The numbers at the top, read every few seconds, and the two charts, read every half minute.

import { drawCost, drawReady } from "./charts.js";
import { known } from "./fleet.js";
import { $, ask, say } from "./tools.js";
import { money, plural, span, words } from "./words.js";

const VITALS_MS = 5000; // also how soon a silent connection is noticed
const HISTORY_EVERY = 6; // vitals
const HOURS = [1, 6, 24]; // how far back a chart may look: no further than there is something to see

let onAnswer = () => {};
let turn = 0;

export function begin({ answered }) {
  onAnswer = answered;
  readVitals();
}

async function readVitals() {
  try {
    const [health, numbers, { caches }] = await Promise.all([ask("/health"), ask("/api/metrics"), ask("/api/cache/stats")]);
    showNumbers(numbers);
    showCaches(Object.values(caches));
    showProvider(health, numbers.provider);
    if (turn++ % HISTORY_EVERY === 0 && !document.hidden) await readHistory();
    onAnswer(true);
  } catch {
    onAnswer(false);
  }
  setTimeout(readVitals, turn === 1 && !known.size ? 500 : VITALS_MS); // the first look may come before the instances
}

async function readHistory() {
  const oldest = Math.min(Date.now(), ...[...known.values()].map(({ data }) => Date.parse(data.createdAt)));
  const hours = HOURS.find((each) => Date.now() - oldest < each * 3600000) ?? HOURS.at(-1);
  const history = await ask(`/api/metrics/history?hours=${hours}`);
  drawCost($("cost-chart"), history);
  drawReady($("ready-chart"), history);
  say($("rate-note"), `${money(history.usd)} in the last ${hours === 1 ? "hour" : `${hours} hours`}`);
}

function showNumbers({ usdPerHour, timeToReady, readinessLag, queue, webhooks }) {
  say($("rate"), money(usdPerHour));
  say($("ready"), figure(timeToReady.p50Ms));
  say($("ready-note"), timeToReady.p90Ms === null ? "from the wish to ready" : `nine in ten: ${span(timeToReady.p90Ms)}`);
  say($("lag"), figure(readinessLag.p50Ms));
  say($("lag-note"), readinessLag.p90Ms === null ? "from running to ready" : `running to ready; nine in ten ${span(readinessLag.p90Ms)}`);
  say($("queue"), `${queue.pending} waiting`);
  say($("queue-note"), `${queue.processing} running, ${queue.failed} failed${queue.oldestPendingAgeMs > 1000 ? `, oldest waits ${span(queue.oldestPendingAgeMs)}` : ""}`);
  say($("webhooks"), `${webhooks.pending} to send`);
  say($("webhooks-note"), `${webhooks.failed24h} given up today`);
}

function showCaches(caches) {
  const sum = (field) => caches.reduce((total, cache) => total + cache[field], 0);
  const asked = sum("hits") + sum("misses");
  say($("caches"), asked ? `${Math.round((100 * sum("hits")) / asked)} % hits` : "idle");
  say($("caches-note"), `${plural(sum("size"), "value")} held`);
}

function showProvider({ services, dependencies }, { breaker, budgetPerMinute, callsLastMinute }) {
  $("simulator").hidden = dependencies.novitaApi?.kind !== "simulator";
  const state = `breaker ${words(breaker.toLowerCase())}`;
  const down = Object.keys(services).filter((name) => services[name] !== "up").map((name) => `${name} is down`);
  say($("breaker"), state);
  $("breaker").dataset.tone = breaker === "CLOSED" && !down.length ? "good" : "bad";
  $("budget-used").max = budgetPerMinute;
  $("budget-used").value = Math.min(callsLastMinute, budgetPerMinute);
  say($("budget"), [`${callsLastMinute} of ${budgetPerMinute} calls a minute`, ...down].join(", "));
}

const figure = (ms) => (ms === null ? "–" : span(ms));
