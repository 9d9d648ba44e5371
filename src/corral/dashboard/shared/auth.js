// The API key: requested when a request is refused, sent with every request. It is kept in the browser's storage of this
// origin until someone signs out, so a new tab does not ask again; signing in or out in one tab does so in all. A browser
// that a proxy signs in needs none.

import { $, el, notice } from "./dom.js";
import { ROOT } from "./root.js";

const STORAGE_KEY = `corral-key ${ROOT}/`; // two services behind one host have a key each

export function begin() {
  addEventListener("storage", ({ key }) => (key === STORAGE_KEY || key === null) && location.reload());
  if (localStorage.getItem(STORAGE_KEY)) {
    const signOut = el("button", { type: "button" }, "Sign out");
    signOut.addEventListener("click", () => change(null));
    $("user").append(signOut);
  }
  const form = el("form", { id: "key-form", method: "dialog" },
    el("h2", { id: "key-title" }, "Sign in"),
    el("p", { id: "key-wrong", className: "problem", role: "alert", hidden: true }, "This key is unknown or was revoked."),
    el("div", { className: "fields" }, el("label", { className: "whole" }, "API key ",
      el("input", { name: "key", type: "password", required: true, autocomplete: "off", spellcheck: false, autofocus: true }))),
    el("p", { id: "key-note", className: "note" }, "This service can be reached from other machines, so it requires an API key. This browser keeps it until you sign out. ",
      el("code", {}, "corral keys create NAME"), " makes one."),
    el("div", { className: "actions" }, el("button", { id: "key-go", className: "primary", type: "submit" }, "Sign in")));
  const dialog = el("dialog", { id: "key", "aria-labelledby": "key-title", "aria-describedby": "key-note" }, form);
  dialog.addEventListener("cancel", (event) => event.preventDefault()); // without a key there is nothing to show
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change(form.elements.key.value.trim());
  });
  document.body.append(dialog);
}

let viaProxy = false;

// A proxy signed this browser in: no key is requested any more, also when the proxy refuses it later.
export function proxySignedIn() {
  viaProxy = true;
}

function change(key) {
  if (key) localStorage.setItem(STORAGE_KEY, key);
  else localStorage.removeItem(STORAGE_KEY);
  location.reload(); // what is shown was read with the other key
}

export async function send(path, { headers = {}, ...options } = {}) {
  const dialog = $("key");
  if (dialog.open) throw new Error("waiting for a key");
  const key = localStorage.getItem(STORAGE_KEY);
  const answer = await fetch(ROOT + path, { ...options, headers: key ? { ...headers, authorization: `Bearer ${key}` } : headers });
  if (answer.status === 401 && viaProxy && !key) {
    notice("The proxy does not accept this browser any more: reload the page to sign in again.");
  } else if (answer.status === 401 && !dialog.open) {
    $("key-wrong").hidden = !key;
    dialog.showModal();
  }
  return answer;
}
