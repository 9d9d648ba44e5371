// The dialog that extends an instance: by a duration, or until a time.

import { newKey, request } from "../shared/api.js";
import { $, el, notice, perform, setText } from "../shared/dom.js";
import { shortLocal, ticking } from "../shared/time.js";
import { endText } from "./text.js";

const CHOICES = [["1h", "1 hour"], ["4h", "4 hours"], ["1d", "1 day"], ["", "until …"]];
const form = el("form", { id: "extend-form", method: "dialog", noValidate: true });
let [target, onDone, key] = [null, () => {}, ""];

export function begin() {
  const cancel = el("button", { type: "button" }, "Cancel");
  form.append(
    el("h2", { id: "extend-title" }), el("p", { id: "extend-end", className: "note" }),
    el("fieldset", { className: "switch" }, el("legend", { className: "unseen" }, "Extend by"),
      ...CHOICES.map(([value, text]) => el("label", {}, el("input", { type: "radio", name: "by", value }), ` ${text}`))),
    el("p", { id: "extend-until", className: "fields", hidden: true }, el("label", { className: "whole" }, "Until, in your time zone ", el("input", { type: "datetime-local", name: "until" }))),
    el("p", { id: "extend-error", className: "problem", role: "alert", hidden: true }),
    el("div", { className: "actions" }, cancel, el("button", { id: "extend-go", className: "primary", type: "submit" }, "Extend")));
  document.body.append(el("dialog", { id: "extend", "aria-labelledby": "extend-title", "aria-describedby": "extend-end" }, form));
  cancel.addEventListener("click", () => $("extend").close());
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    perform("extend", send);
  });
}

// Opens it for an instance with this *id* and *name*; *ending* is as in a row of the list. *done* is called after it was extended.
export function open({ id, name }, ending, done) {
  [target, onDone] = [{ id, name }, done];
  form.reset();
  form.elements.by.value = CHOICES[0][0];
  changed();
  setText($("extend-title"), `Extend ${name}`);
  ticking($("extend-end"), (now) => `It ${endText(ending, now)}.`);
  $("extend").showModal();
  form.querySelector(":checked").focus();
}

function changed() {
  key = newKey(); // another request; the same one sent again after a lost answer extends only once
  $("extend-until").hidden = form.elements.by.value !== "";
  $("extend-error").hidden = true;
}

async function send() {
  const { by, until } = form.elements;
  if (!by.value && !until.value) throw new Error("Choose a day and a time.");
  const body = by.value ? { by: by.value } : { until: new Date(until.value).toISOString() };
  const { lease } = await request(`/api/instances/${encodeURIComponent(target.id)}/extend`, { method: "POST", body, key });
  notice(`${target.name} does not end before ${shortLocal(lease.extendedUntil)}.`);
  onDone(target.id);
}
