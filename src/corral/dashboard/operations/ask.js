// A question before something is changed: what, what follows, and a button that does it. An error stays in the dialog.

import { $, el, perform, setText } from "../shared/dom.js";

let act = async () => {};

export function begin() {
  const cancel = el("button", { type: "button", autofocus: true }, "Cancel");
  const form = el("form", { method: "dialog" },
    el("h2", { id: "ask-title" }), el("p", { id: "ask-what" }), el("p", { id: "ask-note", className: "note" }),
    el("p", { id: "ask-error", className: "problem", role: "alert", hidden: true }),
    el("div", { className: "actions" }, cancel, el("button", { id: "ask-go", type: "submit" })));
  cancel.addEventListener("click", () => $("ask").close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    perform("ask", act);
  });
  document.body.append(el("dialog", { id: "ask", "aria-labelledby": "ask-title", "aria-describedby": "ask-what ask-note" }, form));
}

// Shows the question; *then* is awaited when the answer is yes, and closes the dialog unless it throws.
export function ask({ title, what, note, go, isDanger = false }, then) {
  act = then;
  setText($("ask-title"), title);
  setText($("ask-what"), what);
  setText($("ask-note"), note);
  setText($("ask-go"), go);
  $("ask-go").className = isDanger ? "danger" : "primary";
  $("ask-error").hidden = true;
  $("ask").showModal();
}

// A button for callers with the role *needs* that asks first; *name* is what a screen reader calls it.
export function asking({ text, name, needs }, question, then) {
  const button = el("button", { type: "button", className: question.isDanger ? "danger-text" : "", data: { needs }, "aria-label": name }, text);
  button.addEventListener("click", () => ask({ go: text, ...question }, then));
  return button;
}
