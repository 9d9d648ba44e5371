// The fields of the form, each with its label, a hint and a place for its error.

import { el, setText } from "../shared/dom.js";

// One field. *name* is that of the API, so that an error of the API finds its place.
export function field(name, label, control, { whole = false, hint = "" } = {}) {
  const error = el("p", { id: `error-${name}`, className: "field-error", hidden: true });
  control.name ||= name;
  control.setAttribute("aria-describedby", `hint-${name} error-${name}`);
  return el("div", { className: whole ? "field whole" : "field", data: { field: name } },
    el("label", {}, label, " ", control), el("p", { id: `hint-${name}`, className: "note", hidden: !hint }, hint), error);
}

// A field that is a group of checkboxes or radio buttons.
export function group(name, label, hint, ...content) {
  const error = el("p", { id: `error-${name}`, className: "field-error", hidden: true });
  return el("fieldset", { className: "field whole", data: { field: name }, "aria-describedby": `hint-${name} error-${name}` },
    el("legend", {}, label), ...content, el("p", { id: `hint-${name}`, className: "note", hidden: !hint }, hint), error);
}

export function setHint(form, name, text, tone = "") {
  const hint = form.querySelector(`#hint-${name}`);
  hint.hidden = !text;
  hint.dataset.tone = tone;
  hint.replaceChildren(...[text].flat());
}

export function option(value, text = value) {
  return el("option", { value }, text);
}

export function number(least, most, value = "", step = 1) {
  return el("input", { type: "number", min: least, max: most, step, value, inputMode: step === 1 ? "numeric" : "decimal" });
}

const PLACES = { spotFallback: "billingMode", "healthCheck.path": "healthPath", "healthCheck.targetPort": "healthPort", lease: "lease.maxDuration", "lease.idle": "lease.idle.after", "lease.schedule": "lease.schedule.stop" };
const OF_CODE = [[/^PRODUCT_/, "productName"], [/TEMPLATE|^REGISTRY_/, "templateId"], [/^VOLUME_/, "volumes"]]; // errors without a list of fields

// Shows every error of the API under its field, and returns the text of those that belong to none; empty for none.
export function showErrors(form, error) {
  const problems = error === null ? [] : error.fields?.length ? error.fields : [{ field: OF_CODE.find(([code]) => code.test(error.code))?.[1] ?? "", message: [error.message, error.nextStep].filter(Boolean).join(". ") }];
  const left = [];
  const shown = new Map();
  for (const { field: name, message } of problems) {
    const place = placeOf(form, name);
    if (place) shown.set(place, [...(shown.get(place) ?? []), message]);
    else left.push(name ? `${name} ${message}` : message);
  }
  for (const box of form.querySelectorAll("[data-field]")) mark(box, shown.get(box.dataset.field));
  return left.join("; ");
}

// The field of the form for *name*, or for what it is a part of: an error of `volumes[0].mount` is shown under all volumes.
function placeOf(form, name) {
  for (let part = name; part; part = part.replace(/(^|[.[])[^.[]*$/, "")) {
    const place = PLACES[part] ?? part;
    if (form.querySelector(`[data-field="${CSS.escape(place)}"]`)) return place;
  }
  return null;
}

function mark(box, messages) {
  const error = box.querySelector(".field-error");
  error.hidden = !messages;
  setText(error, messages ? messages.join("; ") : "");
  for (const control of box.querySelectorAll("input:not([type=search]), select, textarea")) {
    if (messages) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
  for (let folded = messages && box.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
}
