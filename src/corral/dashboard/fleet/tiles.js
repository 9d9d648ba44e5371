// The running cost and the time to ready, and whether something is wrong with the service or the provider.

import { request } from "../shared/api.js";
import { $, setText } from "../shared/dom.js";
import { money, span } from "../shared/format.js";
import { drawCost, drawReady } from "./charts.js";
import { known } from "./instances.js";

const EVERY_MS = 15000;
const HISTORY_EVERY = 4; // reads
const HOURS = [1, 6, 24]; // how far back a chart may look: no further than there is something to see

let turn = 0;

export async function begin() {
  if (turn === 0) read();
}

async function read() {
  const isDue = turn++ % HISTORY_EVERY === 0;
  try {
    if (!document.hidden) {
      const [health, numbers] = await Promise.all([request("/health", { also: [503] }), request("/api/metrics")]);
      showNumbers(numbers);
      showTrouble(health, numbers.provider);
      if (isDue) await readHistory();
    }
  } catch {
    turn = HISTORY_EVERY; // the header shows that the service does not answer
  }
  setTimeout(read, EVERY_MS);
}

async function readHistory() {
  const oldest = Math.min(Date.now(), ...[...known.values()].map((data) => Date.parse(data.createdAt)));
  const hours = HOURS.find((each) => Date.now() - oldest < each * 3600000) ?? HOURS.at(-1);
  const history = await request(`/api/metrics/history?hours=${hours}`);
  drawCost($("cost-chart"), history);
  drawReady($("ready-chart"), history);
  setText($("rate-note"), `${money(history.usd)} in the last ${hours === 1 ? "hour" : `${hours} hours`}`);
}

function showNumbers({ usdPerHour, timeToReady }) {
  setText($("rate"), money(usdPerHour));
  setText($("ready"), timeToReady.p50Ms === null ? "–" : span(timeToReady.p50Ms));
  setText($("ready-note"), timeToReady.p90Ms === null ? "from request to ready" : `nine in ten: ${span(timeToReady.p90Ms)}`);
}

function showTrouble({ services, dependencies }, { breaker }) {
  $("simulator").hidden = dependencies.novitaApi?.kind !== "simulator";
  const down = Object.keys(services).filter((name) => services[name] !== "up");
  const parts = [
    ...(breaker === "CLOSED" ? [] : ["The provider keeps failing: Corral calls it less often, and what is shown may be outdated."]),
    ...(down.length ? [`Not working: ${down.join(", ")}. What is shown may be outdated.`] : []),
  ];
  $("trouble").hidden = !parts.length;
  setText($("trouble"), parts.join(" "));
}
