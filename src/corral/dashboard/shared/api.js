// Requests to the API: JSON in and out, errors as exceptions with the API's code.

import { send } from "./auth.js";

export const EVENTS = "text/event-stream";
const SILENT_MS = 45000; // a connection without a byte for so long is dead: the event stream sends one every 15 s

// A random idempotency key. `crypto.randomUUID` does not exist on pages served over plain HTTP from another host.
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Resolves with the body; one with a status in *also* has a result too. Rejects for every other answer, also of a proxy.
export async function request(path, { method = "GET", body, key, also = [] } = {}) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key !== undefined) headers["idempotency-key"] = key;
  let text = "";
  const answer = await read(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), onText: (part) => (text += part) });
  const result = parsed(text);
  if (!answer.ok && result?.error?.message) throw failure(result.error);
  if (result === null || !(answer.ok || also.includes(answer.status))) throw new Error(`Something other than Corral answered: HTTP ${answer.status}.`);
  return result;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// Sends a request and calls *onText* with each part of the response as it arrives. It may take as long as it needs, but
// rejects when nothing arrives for SILENT_MS.
export async function read(path, { onText, signal, ...options }) {
  const end = new AbortController();
  signal?.addEventListener("abort", () => end.abort());
  let silence = setTimeout(() => end.abort(), SILENT_MS);
  try {
    const answer = await send(path, { ...options, signal: end.signal });
    if (options.headers.accept === EVENTS && !answer.ok) throw new Error(`answered ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return answer;
      clearTimeout(silence);
      silence = setTimeout(() => end.abort(), SILENT_MS);
      onText(value);
    }
  } finally {
    clearTimeout(silence);
  }
}

function failure(error) {
  const fields = error.validationErrors ?? [];
  const message = fields.length ? fields.map((f) => `${f.field} ${f.message}`).join("; ") : error.message;
  return Object.assign(new Error(message), { code: error.code, nextStep: error.nextStep, fields });
}
