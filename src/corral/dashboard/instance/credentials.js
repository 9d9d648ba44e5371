// The logins of the machine: read when asked for, shown for a while, kept nowhere.

import { request } from "../shared/api.js";
import { $, el } from "../shared/dom.js";
import { copyable, facts, problemText } from "../shared/parts.js";

const SHOWN_MS = 60000;

let [path, hiding] = ["", null];

export function begin(instancePath) {
  path = `${instancePath}/credentials`;
  $("login").addEventListener("click", () => (hiding ? hide() : show()));
  document.addEventListener("visibilitychange", () => document.hidden && hide());
  addEventListener("pagehide", hide); // a page that is kept for "back" has none of it
}

export function hide() {
  clearTimeout(hiding);
  hiding = null;
  $("logins").replaceChildren();
  $("login").textContent = "Show logins";
}

async function show() {
  try {
    const { ssh, webTerminal, jupyter } = await request(path);
    $("logins").replaceChildren(facts([
      ssh?.password && ["SSH password", copyable(ssh.password, "the ssh password", { isSecret: true })],
      webTerminal && ["Terminal user", copyable(webTerminal.username, "the user of the terminal")],
      webTerminal && ["Terminal password", copyable(webTerminal.password, "the password of the terminal", { isSecret: true })],
      jupyter && ["Jupyter", copyable(jupyter.address, "the address of Jupyter with its login", { isSecret: true })],
    ]), el("p", { className: "note" }, "They disappear after a minute, and the audit log says who asked."));
    hiding = setTimeout(hide, SHOWN_MS);
    $("login").textContent = "Hide logins";
  } catch (error) {
    $("logins").replaceChildren(el("p", { className: "problem" }, ...(error.code ? problemText(error) : [error.message])));
  }
}
