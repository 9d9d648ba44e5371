// The service in numbers: how fast machines become ready, the rate limit at the provider, and what waits.

import { request } from "../shared/api.js";
import { el } from "../shared/dom.js";
import { span, words } from "../shared/format.js";
import { bodyOf, render } from "../shared/parts.js";

const figure = (ms) => (ms === null ? "–" : span(ms));

export async function show() {
  const { timeToReady, readinessLag, queue, webhooks, provider } = await request("/api/metrics");
  const { breaker, callsLastMinute, budgetPerMinute } = provider;
  render(bodyOf("numbers"), [timeToReady, readinessLag, queue, webhooks, provider], () => [
    el("div", { className: "tiles" },
      tile("Time to ready", figure(timeToReady.p50Ms), nine("from the request", timeToReady)),
      tile("Readiness lag", figure(readinessLag.p50Ms), nine("from running to ready", readinessLag)),
      tile("Provider", `breaker ${words(breaker.toLowerCase())}`, `${callsLastMinute} of ${budgetPerMinute} calls a minute`),
      tile("Queue", `${queue.pending} waiting`, `${queue.processing} running, ${queue.failed} failed`),
      tile("Webhooks", `${webhooks.pending} to send`, `${webhooks.failed24h} failed in the last day`)),
  ]);
}

function tile(title, value, note) {
  return el("div", {}, el("h3", {}, title), el("p", { className: "figure" }, value), el("p", { className: "note" }, note));
}

function nine(what, { p90Ms }) {
  return p90Ms === null ? `${what}, median` : `${what}, median; nine in ten ${span(p90Ms)}`;
}
