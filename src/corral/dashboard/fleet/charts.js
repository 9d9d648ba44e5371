// Two small charts, drawn as SVG from the numbers of the last hours. Each also says in words what it shows.

import { $, setText } from "../shared/dom.js";
import { clock, money, plural, span } from "../shared/format.js";

const [WIDTH, HEIGHT] = [600, 96];

export function drawCost(picture, history) {
  const points = history.points;
  const top = Math.max(...points.map((p) => p.usdPerHour), 0);
  const x = (index) => ((index + 0.5) * WIDTH) / points.length;
  const y = (usd) => HEIGHT - 3 - (top ? ((HEIGHT - 10) * usd) / top : 0);
  const line = points.map((p, index) => `${x(index).toFixed(1)},${y(p.usdPerHour).toFixed(1)}`).join(" L");
  frame(picture, history, top && money(top), `Running cost: at most ${money(top)} per hour, ${money(history.usd)} in all.`,
    draw("path", { class: "area", d: `M${x(0)},${HEIGHT} L${line} L${x(points.length - 1)},${HEIGHT} Z` }),
    draw("path", { class: "line", d: `M${line}` }),
    ...points.map((p, index) => hint(index, points.length, `${clock(p.at)}: ${money(p.usdPerHour)} per hour`)));
}

export function drawReady(picture, history) {
  const points = history.points;
  const top = Math.max(...points.map((p) => p.timeToReady.p90Ms ?? 0), 0);
  const width = WIDTH / points.length;
  const tall = (ms) => (top && ms ? Math.max(3, ((HEIGHT - 10) * ms) / top) : 0);
  const bar = (kind, index, ms) => draw("rect", { class: kind, x: index * width + width * 0.18, width: width * 0.64, rx: 2, y: HEIGHT - tall(ms), height: tall(ms) });
  const came = points.reduce((sum, p) => sum + p.becameReady, 0);
  frame(picture, history, top && span(top), `Time to ready: ${plural(came, "instance")} became ready${top ? `, the slowest steps within ${span(top)}` : ""}.`,
    ...points.flatMap((p, index) => [bar("most", index, p.timeToReady.p90Ms), bar("half", index, p.timeToReady.p50Ms)]),
    ...points.map((p, index) => hint(index, points.length, p.becameReady ? `${clock(p.at)}: ${plural(p.becameReady, "instance")}, half within ${span(p.timeToReady.p50Ms)}, nine in ten within ${span(p.timeToReady.p90Ms)}` : `${clock(p.at)}: none became ready`)));
}

function frame(picture, history, top, words, ...shapes) {
  const hours = Math.round((history.stepSeconds * history.points.length) / 3600);
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  picture.setAttribute("aria-label", `${words} Over the last ${plural(hours, "hour")}.`);
  picture.replaceChildren(draw("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }), ...shapes);
  const [began, peak] = picture.nextElementSibling.children;
  setText(began, hours === 1 ? "an hour ago" : `${hours} hours ago`);
  setText(peak, top ? `peak ${top}` : "nothing yet");
}

function hint(index, count, text) {
  const width = WIDTH / count;
  return draw("rect", { class: "hint", x: index * width, width, y: 0, height: HEIGHT }, draw("title", {}, text));
}

function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS($("cost-chart").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
