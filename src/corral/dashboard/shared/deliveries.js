// Webhook deliveries as a table, each with a button that sends it again.

import { request } from "./api.js";
import { el, notice } from "./dom.js";
import { badge, instanceLink, table } from "./parts.js";
import { age, local } from "./time.js";

const TONES = { delivered: "good", failed: "bad", pending: "busy", stopped: "warn" };
const words = (event) => event.replace("instance.", "").replaceAll("_", " ");

// *onSent* is called after a delivery was requested again; *withInstance* adds a column for it.
export function deliveryTable(deliveries, { onSent, withInstance = false }) {
  const columns = ["Event", ...(withInstance ? ["Instance"] : []), "Receiver", "Status", "Attempts", "Last attempt", "Created", "Action"];
  return table("Webhook deliveries", columns, deliveries.map((each) => [
    words(each.event),
    ...(withInstance ? [each.instanceId ? instanceLink(each.instanceId) : "–"] : []),
    each.host,
    badge(each.status, TONES[each.status] ?? "idle"),
    attempts(each),
    lastAttempt(each),
    age(each.createdAt),
    sendAgain(each, onSent),
  ]));
}

function attempts({ attempts: made, nextAttemptAt }) {
  return nextAttemptAt ? `${made}, next ${local(nextAttemptAt)}` : String(made);
}

function lastAttempt({ history: [last] }) {
  if (!last) return "none yet";
  const answer = last.httpStatus === null ? last.error ?? "no answer" : `HTTP ${last.httpStatus}${last.error ? `, ${last.error}` : ""}`;
  return el("span", {}, `${answer} in ${last.durationMs} ms, `, age(last.at));
}

function sendAgain(delivery, onSent) {
  const button = el("button", { type: "button", data: { needs: "operator" }, "aria-label": `Send ${words(delivery.event)} to ${delivery.host} again` }, "Redeliver");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await request(`/api/webhooks/deliveries/${delivery.id}/redeliver`, { method: "POST" });
      notice(`${words(delivery.event)} is sent to ${delivery.host} again.`);
      onSent();
    } catch (error) {
      notice(error.message);
    }
    button.disabled = false;
  });
  return button;
}
