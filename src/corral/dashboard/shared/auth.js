// The API key: requested when a request is refused, kept for this tab only, sent with every request. `EventSource`
// cannot send headers, so the event stream is read with `fetch`.

import { ROOT } from "./root.js";

const STORAGE_KEY = "corral-key";
const dialog = document.getElementById("key");
const signOut = document.getElementById("sign-out");

export function begin() {
  signOut.hidden = !sessionStorage.getItem(STORAGE_KEY);
  signOut.addEventListener("click", () => change(null));
  dialog.addEventListener("cancel", (event) => event.preventDefault()); // without a key there is nothing to show
  document.getElementById("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    change(event.target.elements.key.value.trim());
  });
}

function change(key) {
  if (key) sessionStorage.setItem(STORAGE_KEY, key);
  else sessionStorage.removeItem(STORAGE_KEY);
  location.reload(); // what is shown was read with the other key
}

export async function send(path, { headers = {}, ...options } = {}) {
  if (dialog.open) throw new Error("waiting for a key");
  const key = sessionStorage.getItem(STORAGE_KEY);
  const answer = await fetch(ROOT + path, { ...options, headers: key ? { ...headers, authorization: `Bearer ${key}` } : headers });
  if (answer.status === 401 && !dialog.open) {
    document.getElementById("key-wrong").hidden = !key;
    dialog.showModal();
  }
  return answer;
}

export class EventStream {
  // Like `EventSource`, but it never reconnects by itself.
  static OPEN = 1;
  static CLOSED = 2;
  readyState = 0;
  #end = new AbortController();

  constructor(path) {
    this.#read(path);
  }

  close() {
    this.readyState = EventStream.CLOSED;
    this.#end.abort();
  }

  async #read(path) {
    try {
      const answer = await send(path, { headers: { accept: "text/event-stream" }, signal: this.#end.signal });
      if (!answer.ok) throw new Error(`answered ${answer.status}`);
      this.readyState = EventStream.OPEN;
      this.onopen();
      await this.#pass(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch {
      // reported below, like every other end
    }
    if (this.readyState === EventStream.CLOSED) return;
    this.readyState = EventStream.CLOSED;
    this.onerror();
  }

  async #pass(reader) {
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const messages = (rest + value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) {
        const data = message.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
        if (data) this.onmessage({ data });
      }
    }
  }
}
