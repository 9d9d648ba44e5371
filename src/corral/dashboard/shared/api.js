// Requests to the API: JSON in and out, errors as exceptions with the API's code.

import { send } from "./auth.js";

// A random idempotency key. `crypto.randomUUID` does not exist on pages served over plain HTTP from another host.
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function request(path, { method = "GET", body, key } = {}) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key !== undefined) headers["idempotency-key"] = key;
  const answer = await send(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(10000) });
  const result = await answer.json();
  if (!answer.ok && result.error) throw Object.assign(new Error(messageOf(result.error)), { code: result.error.code, nextStep: result.error.nextStep });
  return result;
}

function messageOf(error) {
  const fields = error.validationErrors ?? [];
  return fields.length ? fields.map((f) => `${f.field} ${f.message}`).join("; ") : error.message;
}
