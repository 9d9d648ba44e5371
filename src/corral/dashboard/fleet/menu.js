// The menu of one instance: its page, what may be done now, and ways to log in.

import * as extend from "../lease/extend.js";
import { confirm } from "../shared/actions.js";
import { request } from "../shared/api.js";
import { $, el, notice, webAddress } from "../shared/dom.js";
import { refusal } from "../shared/roles.js";
import { copyOf, pageOf } from "../shared/root.js";
import { look } from "./instances.js";

const VERBS = { start: "Start", restart: "Restart", stop: "Stop", delete: "Delete" };
let opener = null;

export function begin() {
  const menu = el("div", { id: "menu", role: "menu", popover: "auto", "aria-label": "Actions" });
  menu.addEventListener("keydown", move);
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState === "open") return;
    opener.setAttribute("aria-expanded", "false");
    if (document.activeElement === document.body || menu.contains(document.activeElement)) opener.focus();
  });
  window.addEventListener("scroll", () => menu.matches(":popover-open") && menu.hidePopover(), { passive: true });
  $("instances").append(menu);
}

export function openMenu(button, data) {
  opener = button;
  const menu = $("menu");
  const verbs = Object.keys(VERBS).filter((verb) => data.allowedActions.includes(verb));
  const copy = item("a", data.status === "failed" ? "Try again" : "Duplicate", { href: copyOf(data.id), data: { needs: "operator" } });
  menu.replaceChildren(item("a", "Details", { href: pageOf(data.id) }), copy, ...extension(menu, data), ...verbs.map((verb) => {
    const made = item("button", VERBS[verb], { type: "button", className: verb === "delete" ? "danger-text" : "", data: { needs: "operator" } });
    made.addEventListener("click", () => {
      menu.hidePopover();
      confirm(verb, [data], ([id]) => id && look(id));
    });
    return made;
  }));
  menu.showPopover();
  button.setAttribute("aria-expanded", "true");
  place(menu, button);
  menu.firstElementChild.focus();
  addLogins(menu, button, data);
}

// "Extend …" for an instance that ends, unless the caller may not.
function extension(menu, data) {
  if (!data.endsAt || refusal("operator")) return [];
  const made = item("button", "Extend …", { type: "button" });
  made.addEventListener("click", () => {
    menu.hidePopover();
    extend.open(data, data, look);
  });
  return [made];
}

async function addLogins(menu, button, { id, billed }) {
  if (!billed) return;
  const { connectionDetails: { ssh, jupyter, webTerminal } } = await request(`/api/instances/${encodeURIComponent(id)}`);
  if (opener !== button || !menu.matches(":popover-open")) return;
  if (ssh) {
    const copy = item("button", "Copy ssh command", { type: "button" });
    copy.addEventListener("click", () => copyText(menu, ssh));
    menu.append(copy);
  }
  for (const [address, text] of [[jupyter, "Open Jupyter"], [webTerminal, "Open the terminal"]]) {
    if (webAddress(address)) menu.append(item("a", text, { href: address, target: "_blank", rel: "noopener noreferrer" }));
  }
  place(menu, button);
}

function item(tag, text, properties) {
  return el(tag, { role: "menuitem", tabIndex: -1, ...properties }, text);
}

function place(menu, button) {
  const [at, size] = [button.getBoundingClientRect(), menu.getBoundingClientRect()];
  const below = at.bottom + size.height + 8 < innerHeight;
  menu.style.left = `${Math.max(8, at.right - size.width)}px`;
  menu.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - size.height - 4)}px`;
}

function move(event) {
  const items = [...$("menu").children];
  const at = items.indexOf(document.activeElement);
  const next = { ArrowDown: (at + 1) % items.length, ArrowUp: (at + items.length - 1) % items.length, Home: 0, End: items.length - 1 }[event.key];
  if (event.key === "Tab") $("menu").hidePopover();
  if (next === undefined) return;
  event.preventDefault();
  items[next].focus();
}

async function copyText(menu, text) {
  menu.hidePopover();
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied: ${text}`);
  } catch {
    notice(text); // the browser forbids it: show the text instead
  }
}
