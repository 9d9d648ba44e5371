// The API key, where the service wants one: asked for when a question is refused, kept for this tab only, and sent with
// every question. `EventSource` cannot send it, so the stream is read with `fetch`, key or no key: one way, not two.

const PLACE = "corral-key";
const dialog = document.getElementById("key");
const forget = document.getElementById("key-forget");

export function begin() {
  forget.hidden = !sessionStorage.getItem(PLACE);
  forget.addEventListener("click", () => change(null));
  dialog.addEventListener("cancel", (event) => event.preventDefault()); // without a key there is nothing to go back to
  document.getElementById("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    change(event.target.elements.key.value.trim());
  });
}

function change(key) {
  if (key) sessionStorage.setItem(PLACE, key);
  else sessionStorage.removeItem(PLACE);
  location.reload(); // everything shown came with the other key
}

export async function send(path, { headers = {}, ...options } = {}) {
  if (dialog.open) throw new Error("a key is being asked for");
  const key = sessionStorage.getItem(PLACE);
  const answer = await fetch(path, { ...options, headers: key ? { ...headers, authorization: `Bearer ${key}` } : headers });
  if (answer.status === 401 && !dialog.open) {
    document.getElementById("key-wrong").hidden = !key;
    dialog.showModal();
  }
  return answer;
}

export class EventStream {
  // As `EventSource`, but that it never comes back by itself.
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
      // told below, as every other end
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
