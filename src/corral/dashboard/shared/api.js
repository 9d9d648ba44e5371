// Requests to the API: JSON in and out, errors as exceptions with the API's code.

import { send } from "./auth.js";

export const EVENTS = "text/event-stream";
const SILENT_MS = 45000; // a connection without a byte for so long is dead: the event stream sends one every 15 s
const FOLLOW_MS = 1900000; // a followed log may be silent; the service ends it after 30 minutes

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
  if (result === null || !(answer.ok || also.includes(answer.status))) throw refused(result, answer);
  return result;
}

// Calls *onText* with each part of a text as it arrives. It may be silent for FOLLOW_MS; a refusal rejects as in `request`.
export async function readText(path, { signal, onText, accept = "text/plain" }) {
  let error = "";
  const answer = await read(path, { headers: { accept }, signal, silentMs: FOLLOW_MS, onText: (text, { ok }) => (ok ? onText(text) : (error += text)) });
  if (!answer.ok) throw refused(parsed(error), answer);
}

function refused(result, { status }) {
  return result?.error?.message ? failure(result.error) : new Error(`Something other than Corral answered: HTTP ${status}.`);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// Sends a request and calls *onText* with each part of the response as it arrives. It may take as long as it needs, but
// rejects when nothing arrives for *silentMs*.
export async function read(path, { onText, signal, silentMs = SILENT_MS, ...options }) {
  const end = new AbortController();
  signal?.addEventListener("abort", () => end.abort());
  let silence = setTimeout(() => end.abort(), silentMs);
  try {
    const answer = await send(path, { ...options, signal: end.signal });
    if (options.headers.accept === EVENTS && !answer.ok) throw new Error(`answered ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return answer;
      clearTimeout(silence);
      silence = setTimeout(() => end.abort(), silentMs);
      onText(value, answer);
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
