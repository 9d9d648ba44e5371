// What every page has: the header with its links and the connection state, the banner on an unencrypted connection, the
// notice line and the dialogs. `begin` comes first in every page's script.

import * as actions from "./actions.js";
import * as auth from "./auth.js";
import { $, el, setText } from "./dom.js";
import { clock } from "./format.js";
import * as roles from "./roles.js";
import { ROOT } from "./root.js";

const LINKS = [["/", "Fleet"], ["/costs", "Costs"], ["/operations", "Operations"], ["/docs", "API docs"]];

// Fills the page's `<header>`; *buttons* are the page's own, such as "New instance".
export function begin(...buttons) {
  const here = location.pathname.slice(ROOT.length);
  const links = LINKS.map(([path, text]) => {
    const link = el("a", { href: ROOT + path }, text);
    if (path === here) link.setAttribute("aria-current", "page");
    return link;
  });
  document.querySelector("header").append(
    el("a", { className: "brand", href: `${ROOT}/` }, el("img", { src: `${ROOT}/dashboard/shared/icon.svg`, alt: "", width: 28, height: 28 }), "Corral"),
    el("nav", { "aria-label": "Pages" }, ...links),
    el("p", { id: "link", role: "status", data: { state: "waiting" } }, "connecting"),
    el("div", { className: "own" }, ...buttons, el("span", { id: "user" })));
  if (!isSecureContext) document.querySelector("header").after(unencrypted());
  document.body.append(el("p", { id: "notice", role: "status", hidden: true }));
  auth.begin();
  actions.begin();
  roles.begin();
}

function unencrypted() {
  return el("p", { id: "unencrypted", className: "slim banner" },
    "This connection is not encrypted: API keys can be read on the way. ", el("a", { href: `${ROOT}/help/tls` }, "Use TLS"));
}

let updatedAt = null;
export function updated() {
  updatedAt = new Date();
}

export function showLink(live) {
  $("link").dataset.state = live ? "live" : "lost";
  setText($("link"), live ? "live" : `reconnecting, last update ${updatedAt ? clock(updatedAt) : "none yet"}`);
}
