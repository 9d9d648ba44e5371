// One measured value over time as the path of an SVG, and in words. Pure.

import { span } from "../shared/format.js";

export const [WIDTH, HEIGHT] = [600, 100];
const LATE_MS = 120000; // an older sample is not of now. The provider is about a minute late: with less, "now" is never said

// The path through *points* [{at, value}] between the times *from* and *to*. It is interrupted where samples are missing
// for more than *gapMs*; a sample alone is a dot.
export function pathOf(points, { from, to, gapMs }) {
  let last = -Infinity;
  return points.map(({ at, value }) => {
    const time = Date.parse(at);
    const step = time - last > gapMs;
    last = time;
    const place = `${(((time - from) * WIDTH) / (to - from)).toFixed(1)},${(HEIGHT - Math.min(100, Math.max(0, value))).toFixed(1)}`;
    return step ? `M${place}h0` : `L${place}`;
  }).join("");
}

// What the path shows; *points* are in their order in time.
export function wordsOf(points, { to, gapMs }) {
  if (!points.length) return "no samples";
  const values = points.map(({ value }) => value);
  const percent = (value) => `${Math.round(value)}%`;
  const missing = points.slice(1).map(({ at }, index) => Date.parse(at) - Date.parse(points[index].at)).filter((ms) => ms > gapMs).reduce((sum, ms) => sum + ms, 0);
  const when = to - Date.parse(points.at(-1).at) > Math.max(gapMs, LATE_MS) ? "last" : "now";
  return `${percent(values.at(-1))} ${when}, ${percent(values.reduce((sum, value) => sum + value, 0) / values.length)} on average, ${percent(Math.min(...values))} to ${percent(Math.max(...values))}${missing ? `; no samples for ${span(missing)}` : ""}`;
}
