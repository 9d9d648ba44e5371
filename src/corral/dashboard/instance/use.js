// How busy the machine is: a plot for each of its resources.

import { request } from "../shared/api.js";
import { $, setText } from "../shared/dom.js";
import { guarded } from "../shared/parts.js";
import { HEIGHT, WIDTH, pathOf, wordsOf } from "./plot.js";

const PLOTS = { gpu: "GPU", gpuMemory: "GPU memory", cpu: "CPU", memory: "Memory", disk: "Disk" };
const AGAIN_MS = 30000; // how often it is read; the service reuses an answer as long
const GAP = 2.5; // intervals without a sample that are a gap; with 2 or fewer, a sample that is late would be one

let [path, isKnown] = ["", false];

export function begin(instancePath) {
  path = `${instancePath}/metrics`;
  for (const radio of document.getElementsByName("use")) radio.addEventListener("change", load);
  setInterval(() => !document.hidden && isKnown && load(), AGAIN_MS);
}

// Reads it for the first time once the provider has the machine.
export function showUse({ novitaInstanceId }) {
  if (!novitaInstanceId || isKnown) return;
  isKnown = true;
  load();
}

const load = () => guarded("use-panel", async () => {
  const { value: minutes } = document.querySelector("[name=use]:checked");
  const found = await request(`${path}?minutes=${minutes}`);
  if (minutes !== document.querySelector("[name=use]:checked").value) return; // another was chosen meanwhile
  const times = { from: Date.parse(found.from), to: Date.parse(found.to), gapMs: found.intervalSeconds * GAP * 1000 };
  const isEmpty = Object.keys(PLOTS).every((name) => !found[name].length);
  $("use-none").hidden = !isEmpty;
  setText($("use-none"), "The provider has no samples of this time; new ones take about a minute.");
  $("plots").replaceChildren(...(isEmpty ? [] : Object.keys(PLOTS).map((name) => plot(name, found, times))));
});

function plot(name, found, times) {
  const made = $("plot").content.cloneNode(true);
  const [title, text, picture, line, others, from] = made.querySelectorAll("b, .note, svg, .line, .each, .axis span");
  const words = wordsOf(found[name], times);
  const each = (found.gpus.length > 1 && found.gpus.map((gpu) => gpu[name]).filter(Boolean)) || [];
  setText(title, PLOTS[name]);
  setText(text, [words, ...each.map((points, index) => `GPU ${found.gpus[index].id}: ${wordsOf(points, times).split(",")[0]}`)].join("; "));
  setText(from, `${Math.round((times.to - times.from) / 3600000)} h ago`);
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  picture.setAttribute("aria-label", `${PLOTS[name]}: ${words}`);
  line.setAttribute("d", pathOf(found[name], times));
  others.setAttribute("d", each.map((points) => pathOf(points, times)).join(""));
  return made;
}
