// The log of the container or of its start, read on demand. The service sends whole lines without control characters;
// here they are only text, and the newest of them are kept.

import { readText } from "../shared/api.js";
import { $, setText } from "../shared/dom.js";
import { clock, plural } from "../shared/format.js";
import { problemText } from "../shared/parts.js";

const MOST = 2000; // lines kept; with many more, scrolling becomes slow and a tab that is left open grows without end
const SHOW_MS = 100; // how often new lines are shown: each time, the browser computes the height of all
const AT_END = 30; // pixels from the end within which the newest line is kept in view

let [path, stream, waiting, showing] = ["", null, [], null];
let [isPaused, isChosen, wasHidden] = [false, false, false];

export function begin(instancePath) {
  path = `${instancePath}/logs`;
  $("log-open").addEventListener("click", () => (stream ? stream.abort() : open()));
  $("log-pause").addEventListener("click", () => pause(!isPaused));
  $("log-wrap").addEventListener("change", () => $("log").classList.toggle("long", !$("log-wrap").checked));
  $("log-source").addEventListener("change", () => (isChosen = true));
  for (const id of ["log-source", "log-tail", "log-follow"]) $(id).addEventListener("change", () => !$("log").hidden && open());
  document.addEventListener("visibilitychange", giveBack);
}

// Which log is offered first: that of the start, until the container runs.
export function suggest(source) {
  if ($("log").hidden && !isChosen) $("log-source").value = source;
}

// Closes the stream while the tab is hidden: browsers allow six connections to a host for all tabs together.
function giveBack() {
  if (document.hidden && stream) {
    wasHidden = true;
    stream.abort();
  } else if (wasHidden && !isPaused && isAtEnd()) {
    open();
  }
}

async function open() {
  stream?.abort();
  const mine = (stream = new AbortController());
  const follow = $("log-follow").checked;
  let rest = "";
  [waiting, wasHidden] = [[], false];
  $("log").replaceChildren();
  $("log").hidden = false;
  pause(false);
  $("log-state").replaceChildren(follow ? "Following." : "Reading…");
  const said = await readText(`${path}?source=${$("log-source").value}&tail=${$("log-tail").value}&follow=${follow}`, {
    signal: mine.signal,
    onText: (text) => {
      if (stream !== mine) return;
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      add(lines);
    },
  }).then(() => [follow ? `The stream ended at ${clock(Date.now())}.` : `Read at ${clock(Date.now())}.`], (error) => reasonOf(error, mine.signal));
  if (stream !== mine) return; // another was opened
  stream = null;
  showButtons();
  $("log-state").replaceChildren(...said);
}

function reasonOf(error, { aborted }) {
  if (aborted) return [wasHidden ? "Stopped while this tab was hidden." : "Stopped."];
  return error.code ? problemText(error) : ["The connection was lost."];
}

function pause(wanted) {
  isPaused = wanted;
  if (!wanted) show();
  showButtons();
}

function showButtons() {
  setText($("log-open"), stream ? "Stop reading" : "Reconnect");
  $("log-pause").hidden = !stream && !isPaused;
  setText($("log-pause"), isPaused ? `Continue${waiting.length ? `, ${plural(waiting.length, "new line")}` : ""}` : "Pause");
}

function add(lines) {
  waiting.push(...lines);
  waiting.splice(0, waiting.length - MOST);
  if (isPaused) showButtons();
  else showing ??= setTimeout(show, SHOW_MS);
}

const isAtEnd = () => $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < AT_END;

// Shows the lines that wait. A reader further up keeps the place.
function show() {
  clearTimeout(showing);
  showing = null;
  if (isPaused) return;
  const box = $("log");
  const [wasAtEnd, top, before] = [isAtEnd(), box.scrollTop, box.scrollHeight];
  while (box.childNodes.length + waiting.length > MOST) box.firstChild.remove();
  const removed = before - box.scrollHeight;
  box.append(...waiting.map((line) => `${line}\n`));
  waiting = [];
  box.scrollTop = wasAtEnd ? box.scrollHeight : top - removed;
}
