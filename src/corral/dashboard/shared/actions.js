// Start, stop, restart and delete, of one instance or of many, each after one confirmation.

import { newKey, request } from "./api.js";
import { $, el, notice, setText } from "./dom.js";
import { cancelled, money, plural } from "./format.js";
import { refusal } from "./roles.js";

const AT_ONCE = 6; // requests under way together: as many as a browser sends to one host
const VERBS = {
  start: { title: "Start", note: "Billed again from the moment it runs. The disk is unchanged.", done: "being started", price: (data) => data.price },
  restart: { title: "Restart", note: "Running programs end and start again. The disk is kept.", done: "being restarted", price: billedPrice },
  stop: { title: "Stop", note: "Running programs end. The provider keeps the disk for some days, in which the instance can be started again when its host has a free GPU.", done: "being stopped", price: billedPrice },
  delete: { title: "Delete", note: "The disk is deleted too. Shown as deleting, and may be billed, until the provider confirms.", done: "being deleted", price: billedPrice },
};

let pending = null; // {verb, todo: [{data, key}], onDone}: the idempotency key makes a repeated request harmless

function billedPrice(data) {
  return data.billed ? data.price : null;
}

export function begin() {
  const cancel = el("button", { type: "button", autofocus: true }, "Cancel");
  const form = el("form", { id: "confirm-form", method: "dialog" },
    el("h2", { id: "confirm-title" }),
    el("ul", { id: "confirm-what", role: "list", tabIndex: 0, "aria-label": "Instances" }),
    el("p", { id: "confirm-money" }),
    el("p", { id: "confirm-note", className: "note" }),
    el("div", { id: "confirm-error", className: "problem", role: "alert", hidden: true }),
    el("div", { className: "actions" }, cancel, el("button", { id: "confirm-go", type: "submit" })));
  const dialog = el("dialog", { id: "confirm", "aria-labelledby": "confirm-title", "aria-describedby": "confirm-money confirm-note" }, form);
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    carryOut();
  });
  document.body.append(dialog);
}

// Asks for a confirmation, then sends *verb* for each of *instances* that allows it; *onDone* gets the ids it was sent for.
export function confirm(verb, instances, onDone = () => {}) {
  const reason = refusal("operator");
  if (reason) return notice(reason);
  const { title, note } = VERBS[verb];
  const able = instances.filter((data) => data.allowedActions.includes(verb));
  pending = { verb, todo: able.map((data) => ({ data, key: newKey() })), onDone };
  const others = instances.length - able.length;
  setText($("confirm-title"), instances.length === 1 ? `${title} this instance?` : `${title} ${plural(able.length, "instance")}?`);
  setText($("confirm-note"), others ? `${note} ${others === 1 ? "One other" : `${others} others`} of the selection cannot ${verb} now.` : note);
  setText($("confirm-go"), title);
  $("confirm-go").className = verb === "delete" ? "danger" : "primary";
  $("confirm-go").disabled = !able.length;
  $("confirm-error").hidden = true;
  showTodo();
  $("confirm").showModal();
}

function showTodo() {
  const { verb, todo } = pending;
  const { price } = VERBS[verb];
  $("confirm-what").replaceChildren(...todo.map(({ data }) => el("li", {}, el("b", {}, data.name),
    el("span", {}, `${data.gpuNum} × ${data.productName} in ${data.region}`),
    el("span", { className: "price" }, price(data) === null ? "" : `${money(price(data))}/h`))));
  const total = todo.reduce((sum, { data }) => sum + (price(data) ?? 0), 0);
  setText($("confirm-money"), !total ? "Not billed now." : verb === "start" ? `Will cost ${money(total)}/h.` : verb === "restart" ? `Costs ${money(total)}/h.` : `Ends ${money(total)}/h.`);
}

async function carryOut() {
  const mine = pending;
  const { verb, todo, onDone } = mine;
  const isShown = () => pending === mine && $("confirm").open; // it may be cancelled, and opened for others, meanwhile
  const [sent, failed] = [[], []];
  $("confirm-go").disabled = true;
  const queue = [...todo];
  const worker = async () => {
    while (queue.length && isShown()) {
      const item = queue.shift();
      try {
        await post(verb, item);
        sent.push(item);
      } catch (error) {
        failed.push({ item, error });
      }
      if (todo.length > 1 && isShown()) setText($("confirm-go"), `${sent.length + failed.length} of ${todo.length}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  mine.todo = failed.map(({ item }) => item);
  const done = sent.length ? `${sent.length === 1 ? `${sent[0].data.name} is` : `${sent.length} instances are`} ${VERBS[verb].done}.` : "";
  onDone(sent.map(({ data }) => data.id));
  if (!isShown()) return notice(cancelled(done, queue.length, problems(failed)));
  setText($("confirm-go"), failed.length ? "Try again" : VERBS[verb].title);
  $("confirm-go").disabled = false;
  if (done) notice(done);
  if (!failed.length) return $("confirm").close();
  showTodo();
  $("confirm-error").hidden = false;
  $("confirm-error").replaceChildren(...problems(failed).map((each) => el("p", {}, each)));
}

// A sentence for each reason.
function problems(failed) {
  const reasons = new Map();
  for (const { item, error } of failed) reasons.set(error.message, [...(reasons.get(error.message) ?? []), item.data.name]);
  return [...reasons].map(([message, names]) => `${names.length > 3 ? plural(names.length, "instance") : names.join(", ")}: ${message}`);
}

function post(verb, { data, key }) {
  const path = `/api/instances/${encodeURIComponent(data.id)}`;
  if (verb === "delete") return request(path, { method: "DELETE", key });
  return request(`${path}/${verb}`, { method: "POST", body: {}, key });
}
