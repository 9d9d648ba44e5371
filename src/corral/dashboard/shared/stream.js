// The event stream: resumed after the last event when it breaks, closed while the tab is hidden, because browsers allow
// six connections to a host for all tabs together. Its state is shown in the header.

import { EVENTS, read, request } from "./api.js";
import { showLink, updated } from "./frame.js";

const AGAIN_MS = 1000; // delay before a broken stream is opened again
const MOST_REPLAYED = 500; // missed events; to read the data again is cheaper than more of them

// Awaits *load*, which reads what the page shows, then calls *onEvent* with every later event, for as long as the page is
// open; with *instanceId* only with those of one instance. Calls *load* again when it failed, and when events were missed.
export async function live({ load, onEvent, instanceId }) {
  let last = null;
  const receive = (event) => {
    if (instanceId === undefined && event.seq !== last + 1) {
      last = null;
      throw new Error("events are missing");
    }
    last = event.seq;
    updated();
    onEvent(event);
  };
  for (;;) {
    try {
      await visible();
      const number = await newest(); // before the data: a stream after it has every later change
      if (last === null || number < last || number - last > MOST_REPLAYED) {
        last = null;
        await load();
        updated();
        last = number;
      }
      await stream(`/api/events/stream?after=${last}${instanceId === undefined ? "" : `&instanceId=${encodeURIComponent(instanceId)}`}`, receive);
    } catch {
      showLink(false);
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function newest() {
  const { events } = await request("/api/events?last=1");
  return events[0]?.seq ?? 0;
}

async function stream(path, receive) {
  const end = new AbortController();
  const close = () => document.hidden && end.abort();
  document.addEventListener("visibilitychange", close);
  let rest = "";
  try {
    await read(path, {
      headers: { accept: EVENTS },
      signal: end.signal,
      onText: (text) => {
        showLink(true);
        const messages = (rest + text).split("\n\n");
        rest = messages.pop();
        for (const message of messages) {
          const data = message.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
          if (data) receive(JSON.parse(data));
        }
      },
    });
    showLink(false);
  } catch (error) {
    if (!end.signal.aborted) throw error; // the tab was hidden
  } finally {
    document.removeEventListener("visibilitychange", close);
  }
}

function visible() {
  return new Promise((resolve) => {
    if (!document.hidden) resolve();
    else document.addEventListener("visibilitychange", resolve, { once: true });
  });
}
