// What the page is made with: elements that hold only text, and questions to the API.

import { send } from "./key.js";

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(made.dataset, value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS($("cost-chart").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export async function ask(path, { method = "GET", body, key } = {}) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key !== undefined) headers["idempotency-key"] = key;
  const answer = await send(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(10000) });
  const told = await answer.json();
  if (!answer.ok && told.error) throw Object.assign(new Error(complaint(told.error)), { code: told.error.code });
  return told;
}

export function webAddress(text) {
  const known = text && URL.canParse(text) && ["http:", "https:"].includes(new URL(text).protocol);
  return known ? text : null; // a provider's answer must not become a script
}

let noticeEnds;
export function notice(text) {
  $("notice").hidden = false;
  say($("notice"), text);
  clearTimeout(noticeEnds);
  noticeEnds = setTimeout(() => ($("notice").hidden = true), 6000);
}

export function refuse(dialog, error) {
  $(`${dialog}-error`).hidden = false;
  say($(`${dialog}-error`), error.message);
}

export async function perform(dialog, doing) {
  $(`${dialog}-go`).disabled = true;
  try {
    await doing();
    $(dialog).close();
  } catch (error) {
    refuse(dialog, error);
  }
  $(`${dialog}-go`).disabled = false;
}

function complaint(error) {
  const fields = error.validationErrors ?? [];
  return fields.length ? fields.map((f) => `${f.field} ${f.message}`).join("; ") : error.message;
}
