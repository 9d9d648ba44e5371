// The top of the page: status, money and actions; then why it is in this state and what happens next.

import { dataText, isDataExpiring } from "../lease/text.js";
import { confirm } from "../shared/actions.js";
import { $, el, setText } from "../shared/dom.js";
import { money, tone, words } from "../shared/format.js";
import { copyable, facts, focusHeading, problemText, render } from "../shared/parts.js";
import { copyOf } from "../shared/root.js";
import { age, local, moment, shortLocal, ticking } from "../shared/time.js";

const VERBS = { start: "Start", stop: "Stop", restart: "Restart", delete: "Delete" };
const NEXT = {
  creating: "Corral takes the cheapest offer in stock, in the preferred regions first, and sends one create call.",
  starting: "The provider pulls the image and boots the machine; Corral follows it by listing the account.",
  running: "Corral looks up its addresses, then checks its ports.",
  health_checking: "It becomes ready as soon as its ports respond, and fails if they do not in time.",
  ready: "Nothing: it stays ready until it is stopped, deleted or taken back.",
  stopping: "The stop is repeated until the provider says that it has stopped.",
  exited: "Nothing: it can be started again while its host has a free GPU, or be deleted.",
  restarting: "The provider restarts it; then its ports are checked again.",
  migrating: "The provider moves it to another host; then its ports are checked again.",
  deleting: "The delete is repeated until the provider confirms that the machine is gone.",
  terminated: "Nothing: it is gone, and its record is kept.",
  failed: "Nothing happens by itself.",
};
const ENDS = "It stays ready until its lease ends, or it is stopped, deleted or taken back.";

export function showTop(data, onDone) {
  setText($("name"), data.name);
  setText($("status"), words(data.status));
  $("status").dataset.tone = tone(data);
  const price = data.price === null ? "Price not known yet" : `${money(data.price)}/h`;
  $("money").replaceChildren(...(data.billed ? [price, " ", el("small", {}, data.billingMode === "spot" ? "spot" : "on demand")] : [el("small", {}, "Not billed now")]));
  $("facts").replaceChildren(`${data.gpuNum} × ${data.productName} in ${data.region}, created `, age(data.createdAt),
    ...(data.stale ? [el("span", { className: "stale" }, ", not confirmed: the provider could not be asked lately")] : []));
  showVerbs(data, onDone);
}

// Buttons that stay keep the focus: they are changed only when the allowed actions do.
function showVerbs(data, onDone) {
  const shown = JSON.stringify([data.allowedActions, data.status === "failed"]);
  if ($("verbs").dataset.shown === shown) return;
  const hadFocus = $("verbs").contains(document.activeElement);
  $("verbs").dataset.shown = shown;
  const again = el("a", { className: data.status === "failed" ? "button primary" : "button", data: { needs: "operator" }, href: copyOf(data.id) },
    data.status === "failed" ? "Try again" : "Duplicate");
  const buttons = Object.keys(VERBS).filter((verb) => data.allowedActions.includes(verb)).map((verb) => {
    const button = el("button", { type: "button", className: verb === "delete" ? "danger-text" : "", data: { needs: "operator" } }, VERBS[verb]);
    button.addEventListener("click", () => confirm(verb, [data], onDone));
    return button;
  });
  $("verbs").replaceChildren(again, ...buttons);
  if (hadFocus) focusHeading($("top"));
}

export function showWhy(data, events, stuck) {
  const { error, reason, spot } = data;
  const last = events.findLast((event) => event.reason);
  const lines = [];
  if (error) lines.push(el("p", { className: "problem" }, ...problemText(error)));
  if (reason) lines.push(el("p", {}, el("b", {}, "Waits: "), reason));
  if (stuck) lines.push(el("p", { className: "problem" }, el("b", {}, "Stuck: "), stuck.reason, el("br"), el("b", {}, "Next: "), stuck.nextStep));
  if (spot?.noticedAt) lines.push(el("p", { className: "problem" }, `The provider takes this spot machine back${spot.reclaimAt ? ` ${local(spot.reclaimAt)}` : ""}.`));
  if (!error && !reason && last) lines.push(el("p", {}, el("b", {}, "Because: "), last.reason, " (", age(last.timestamp), ")"));
  if (data.dataKeptUntil) lines.push(ticking(el("p", { className: isDataExpiring(data, Date.now()) ? "problem" : "" }), (now) => dataText(data, shortLocal(data.dataKeptUntil), now).replace("data", "Data")));
  if (data.estimatedReadyTime) lines.push(el("p", {}, el("b", {}, "Expected ready: "), moment(data.estimatedReadyTime)));
  if (!stuck && !error) lines.push(el("p", {}, el("b", {}, "Next: "), data.lease?.endsAt ? ENDS : NEXT[data.status] ?? ""));
  if (data.status === "failed") lines.push(el("p", {}, el("b", {}, "Money: "), data.billed ? `it still runs and costs ${money(data.price)}/h until it is stopped or deleted.` : "it is not billed."));
  $("why").replaceChildren(...lines);
}

export function showAbout(data) {
  render($("about"), data, () => [facts([
    ["Id", copyable(data.id, "the id")],
    data.novitaInstanceId && ["At the provider", copyable(data.novitaInstanceId, "the provider's id")],
    data.createdBy && ["Created by", data.createdBy],
    ["Created", moment(data.createdAt)],
    data.startedAt && ["Accepted by the provider", moment(data.startedAt)],
    data.readyAt && ["Ready", moment(data.readyAt)],
    data.stoppedAt && ["Stopped", moment(data.stoppedAt)],
    ["Last seen", data.lastSeenAt ? moment(data.lastSeenAt) : "never"],
    ["Template", data.templateId ?? (data.image ? "none" : "none: adopted")],
    data.image && ["Image", data.image],
    data.imageAuthId && ["Registry login", data.imageAuthId],
    ...[["Command", data.command], ["Entrypoint", data.entrypoint]].map(([name, text]) => text !== null && [name, text ? el("code", {}, text) : "none"]),
    data.ports && ["Ports", data.ports.join(", ")],
    data.minCuda && ["CUDA", `${data.minCuda} or newer`],
    ...data.volumes.map(({ id, mount }) => ["Volume", `${id} at ${mount}`]),
    ...Object.entries(data.env).map(([name, value]) => [el("code", {}, name), el("code", {}, value)]),
    data.secretNames.length && ["Secrets", `${data.secretNames.join(", ")}; their values are not shown`],
    ["Disk", `${data.rootfsSize} GB`],
    ["Price", data.price === null ? "not known yet" : `${money(data.price)}/h ${data.billingMode === "spot" ? "spot" : "on demand"}`],
  ])]);
}
