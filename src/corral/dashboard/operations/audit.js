// The audit log, newest first, page by page: every call that could change something, also the refused ones.

import { request } from "../shared/api.js";
import { $, el } from "../shared/dom.js";
import { badge, bodyOf, instanceLink, render, table } from "../shared/parts.js";
import { local } from "../shared/time.js";

const PAGE = 25;
let trail = []; // the number before which each older page begins; empty on the newest page
let reload = () => {};

export function begin(onChange) {
  reload = onChange;
  for (const control of [$("audit-who"), $("audit-instance")]) {
    control.addEventListener("change", () => {
      trail = [];
      reload();
    });
  }
}

export async function show() {
  const query = new URLSearchParams({ last: PAGE });
  if (trail.length) query.set("before", trail.at(-1));
  if ($("audit-who").value.trim()) query.set("who", $("audit-who").value.trim());
  if ($("audit-instance").value.trim()) query.set("instanceId", $("audit-instance").value.trim());
  const lines = (await request(`/api/audit?${query}`)).entries.reverse();
  render(bodyOf("audit"), [lines, trail], () => [
    lines.length ? lineTable(lines) : el("p", { className: "note" }, "No line matches."),
    el("p", { className: "pages" },
      ...(trail.length ? [turn("Newer lines", () => trail.pop())] : []),
      ...(lines.length === PAGE ? [turn("Older lines", () => trail.push(lines.at(-1).number))] : [])),
  ]);
}

function lineTable(lines) {
  return table("Audit log, newest first", ["When", "Caller", "Request", "Instance", "Result", "From"], lines.map((line) => [
    local(line.at), `${line.who}${line.role ? ` (${line.role})` : ""}`, el("span", {}, el("b", {}, line.method), " ", el("code", {}, line.path)),
    line.instanceId ? instanceLink(line.instanceId) : "–", result(line), line.address]));
}

function result({ status, errorCode }) {
  return el("span", {}, badge(String(status), status < 400 ? "good" : "bad"), errorCode ? ` ${errorCode}` : "");
}

function turn(text, change) {
  const button = el("button", { type: "button" }, text);
  button.addEventListener("click", () => {
    change();
    reload();
  });
  return button;
}
