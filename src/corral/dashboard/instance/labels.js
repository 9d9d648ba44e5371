// The labels, and the form that changes them.

import { request } from "../shared/api.js";
import { $, el } from "../shared/dom.js";
import { TEXT, pairs } from "../shared/pairs.js";
import { problemText, render } from "../shared/parts.js";

const editor = pairs("label", TEXT);
let [path, labels, onDone] = ["", {}, () => {}];

export function begin(instancePath, done) {
  [path, onDone] = [instancePath, done];
  $("label-rows").append(...editor.nodes);
  $("label-edit").addEventListener("click", () => {
    editor.fill(Object.entries(labels));
    show(true);
    $("label-rows").querySelector("input, button").focus();
  });
  $("label-cancel").addEventListener("click", () => show(false));
  $("label-form").addEventListener("submit", save);
}

export function showLabels(data) {
  labels = data.labels;
  const shown = Object.entries(labels).map((pair) => el("li", { className: "badge" }, pair.join("=")));
  render($("labels"), labels, () => (shown.length ? shown : [el("li", { className: "note" }, "None.")]));
}

function show(isEdited) {
  $("label-form").hidden = !isEdited;
  $("labels").hidden = $("label-edit").hidden = isEdited;
  $("label-problem").hidden = true;
  if (!isEdited) $("label-edit").focus();
}

async function save(event) {
  event.preventDefault();
  try {
    if (editor.problem()) throw new Error(`It ${editor.problem()}.`);
    await request(path, { method: "PATCH", body: { labels: Object.fromEntries(editor.read()) } });
    show(false);
    onDone();
  } catch (error) {
    $("label-problem").hidden = false;
    $("label-problem").replaceChildren(...(error.code ? problemText(error) : [error.message]));
  }
}
