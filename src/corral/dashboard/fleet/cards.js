// A card with its progress for each instance in motion.

import { request } from "../shared/api.js";
import { $, el, setText } from "../shared/dom.js";
import { isMoving, money, plural, span, tone, words } from "../shared/format.js";
import { showPull } from "../shared/pull.js";
import { pageOf } from "../shared/root.js";
import { ticking } from "../shared/time.js";
import { whyOf } from "./row.js";
import { trackOf } from "./track.js";

const MOST = 4; // cards; the table has the others
const PULL_MS = 3000; // how often the progress of a pull is read for each card in view

const cards = new Map(); // instance id -> its card
let reading = false;

export function begin() {
  setInterval(() => !document.hidden && cards.forEach((card) => isInView(card.element) && showPull(card.pull, card.data)), PULL_MS);
}

export function update(shown) {
  const moving = shown.filter(isMoving).sort((a, b) => isEnding(a) - isEnding(b)); // first what someone waits for
  const chosen = moving.slice(0, MOST);
  const wanted = new Set(chosen.map(({ id }) => id));
  for (const [id, card] of cards) {
    if (wanted.has(id)) continue;
    card.element.remove();
    cards.delete(id);
  }
  for (const data of chosen) {
    const card = cards.get(data.id) ?? makeCard(data.id);
    if (card.data !== data) showCard(card, data);
  }
  const others = moving.length - chosen.length;
  $("moving-more").hidden = !others;
  setText($("moving-more"), `${plural(others, "more instance")} in motion, in the table`);
  readSteps();
}

const isEnding = ({ status }) => status === "deleting" || status === "stopping";

function isInView(node) {
  const { top, bottom } = node.getBoundingClientRect();
  return bottom > 0 && top < innerHeight && node.offsetParent !== null;
}

function makeCard(id) {
  const card = { data: null, steps: null, badge: el("span", { className: "badge" }), name: el("a", { href: pageOf(id) }), facts: el("span", { className: "facts" }), due: el("span", { className: "due" }), track: el("ol", { className: "track", role: "list" }), pull: el("div", { className: "pull" }), why: el("p", { className: "why" }) };
  card.element = el("li", { className: "card" }, el("p", { className: "head" }, card.badge, card.name, card.facts, card.due), card.track, card.pull, card.why);
  cards.set(id, card);
  $("moving").append(card.element);
  return card;
}

function showCard(card, data) {
  card.data = data;
  setText(card.badge, words(data.status));
  card.badge.dataset.tone = tone(data);
  setText(card.name, data.name);
  setText(card.facts, [`${data.gpuNum} × ${data.productName}`, data.region, ...(data.billed ? [`${money(data.price)}/h`] : [])].join(" · "));
  setText(card.why, whyOf(data));
  card.why.hidden = !card.why.textContent;
  ticking(card.due, (now) => dueText(data, now));
}

function dueText({ estimatedReadyTime }, now) {
  const due = estimatedReadyTime ? Date.parse(estimatedReadyTime) - now : 0;
  return due > 0 ? `ready in about ${span(Math.max(due, 10000))}` : "";
}

// The steps are not in the list: they are read for the cards alone, again after every change.
async function readSteps() {
  const old = [...cards.values()].filter(({ data, steps }) => data !== steps);
  if (!old.length || reading) return;
  reading = true;
  const shown = new Map(old.map((card) => [card.data.id, card.data]));
  try {
    const { instances } = await request(`/api/instances?ids=${[...shown.keys()].join(",")}`);
    for (const details of instances) {
      const card = cards.get(details.id);
      if (!card) continue;
      card.steps = shown.get(details.id);
      card.track.replaceChildren(...trackOf(details));
      card.track.setAttribute("aria-label", `Progress of ${details.name}`);
    }
    reading = false;
    readSteps();
  } catch {
    reading = false; // the next change reads them
  }
}
