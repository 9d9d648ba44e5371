// Who is signed in, and what that role allows. An element with `data-needs="operator"` is disabled for a caller without
// the role and says why, also when it is added later. The service checks every request in any case.

import { request } from "./api.js";
import { proxySignedIn } from "./auth.js";
import { $, el, notice } from "./dom.js";

const ROLES = ["viewer", "operator", "admin"]; // each may do what those before it may
const RETRY_MS = 3000;

let caller = null;

export async function begin() {
  document.addEventListener("click", block, true);
  new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(mark))).observe(document.body, { childList: true, subtree: true });
  await identify();
}

// Why the caller may not do what needs *role*; null if it may, or as long as it is not known.
export function refusal(role) {
  if (!caller || ROLES.indexOf(caller.role) >= ROLES.indexOf(role)) return null;
  return `This needs the role ${role}; ${caller.viaProxy ? "" : "the key "}“${caller.name}” has ${caller.role}.`;
}

// Whether the caller is known to have *role*: what is read without a click is not tried in vain.
export const allows = (role) => caller !== null && !refusal(role);

async function identify() {
  try {
    caller = await request("/api/whoami");
  } catch (error) {
    if (error.code === undefined) setTimeout(identify, RETRY_MS); // not reached; an error of the API does not pass by itself
    return;
  }
  if (caller.viaProxy) proxySignedIn();
  $("user").prepend(el("span", { id: "who" }, el("b", {}, caller.name), " ", el("small", {}, caller.role)));
  mark(document.body);
}

function mark(node) {
  if (!(node instanceof Element)) return;
  for (const each of [node, ...node.querySelectorAll("[data-needs]")]) {
    const reason = each.dataset.needs === undefined ? null : refusal(each.dataset.needs);
    if (!reason) continue;
    each.setAttribute("aria-disabled", "true"); // and not `disabled`: then the keyboard would not reach it, nor its reason
    each.title = reason;
  }
}

function block(event) {
  const wanted = event.target instanceof Element ? event.target.closest("[data-needs]") : null;
  const reason = wanted && refusal(wanted.dataset.needs);
  if (!reason) return;
  event.preventDefault();
  event.stopPropagation();
  notice(reason);
}
