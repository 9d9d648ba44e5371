// A lease in words: how much time remains, why it ends, and what its parts say. Pure.

const UNITS = { d: 86400, h: 3600, m: 60, s: 1 };
const NAMES = { d: "d", h: "h", m: "min", s: "s" };

// The seconds of a duration of the API, such as "1h30m"; NaN for another text.
export function secondsOf(text) {
  if (!/^(\d+[dhms])+$/.test(text)) return NaN;
  return [...text.matchAll(/(\d+)([dhms])/g)].reduce((sum, [, count, unit]) => sum + count * UNITS[unit], 0);
}

// Such as "8 h" or "1 h 30 min": the two largest units that are not zero.
export function duration(seconds) {
  let rest = Math.floor(seconds);
  const parts = [];
  for (const [unit, size] of Object.entries(UNITS)) {
    if (rest >= size) parts.push(`${Math.floor(rest / size)} ${NAMES[unit]}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

// A duration of the API in words; a text that is none is returned as it is.
export function inWords(text) {
  return Number.isNaN(secondsOf(text)) ? text : duration(secondsOf(text));
}

// The time from *now* to *at*, both in milliseconds, rounded down; in seconds only during the last minute.
export function remaining(at, now) {
  const seconds = Math.max(0, (at - now) / 1000);
  const unit = seconds < 60 ? 1 : seconds < 86400 ? 60 : 3600;
  return duration(Math.floor(seconds / unit) * unit);
}

// The end of an instance as a row of the list has it, from its details.
export function endingOf({ lease }) {
  if (!lease) return { endsAt: null };
  const { endsAt, endsBecause, notifiedAt, reason, quiet, idle } = lease;
  return { endsAt, endsBecause, endsReason: reason, notifiedAt, quiet: quiet && idle ? { ...quiet, after: idle.after } : null };
}

// When an instance ends and why, such as "ends in 6 min: GPU 0 %, CPU 2 % for 24 of 30 min"; empty if no end is known.
export function endText({ endsAt, endsBecause, endsReason, quiet }, now) {
  if (!endsAt) return "";
  const at = Date.parse(endsAt);
  const why = endsBecause === "idle" && quiet ? quietText(quiet, now) : endsReason ?? endsBecause;
  return `${at > now ? `ends in ${remaining(at, now)}` : "ends now"}: ${why}`;
}

function quietText({ since, after, gpu, cpu }, now) {
  const values = [["GPU", gpu], ["CPU", cpu]].filter(([, value]) => typeof value === "number");
  const measured = values.map(([name, value]) => `${name} ${Math.round(value)} %`).join(", ") || "not used";
  const [passed, whole] = [Math.max(0, (now - Date.parse(since)) / 1000), secondsOf(after)];
  if (!(passed < whole)) return `${measured} for ${remaining(passed * 1000, 0)}`;
  const unit = whole < 120 ? "s" : whole < 7200 ? "m" : "h";
  return `${measured} for ${Math.floor(passed / UNITS[unit])} of ${Number((whole / UNITS[unit]).toFixed(1))} ${NAMES[unit]}`;
}

// How long the data of a stopped machine is kept; *day* is the time in words. Empty if that is not known.
export function dataText({ dataKeptUntil }, day, now) {
  if (!dataKeptUntil) return "";
  const at = Date.parse(dataKeptUntil);
  return at > now ? `data kept until ${day}, in ${remaining(at, now)}` : `data was kept until ${day} and may be gone`;
}

const SOON_MS = 48 * 3600 * 1000; // as of the first event that warns

export const isDataExpiring = ({ dataKeptUntil }, now) => Boolean(dataKeptUntil) && Date.parse(dataKeptUntil) - now < SOON_MS;

const ENDS = { stop: "stopped; its data is kept for some days", delete: "deleted, with its data" };
const SIGNALS = { gpu: ({ gpuBelow }) => `GPU below ${gpuBelow} %`, cpu: ({ cpuBelow }) => `CPU below ${cpuBelow} %`, lastUsed: () => "no use reported" };

// The parts of a lease as pairs of a name and a text.
export function partsOf({ maxDuration, idle, schedule, onEnd, grace }) {
  return [
    maxDuration && ["Maximum duration", `${inWords(maxDuration)} from ready`],
    idle && ["Idle", `${inWords(idle.after)} with ${idle.signals.map((signal) => SIGNALS[signal]?.(idle) ?? signal).join(", ")}`],
    schedule?.stop && ["Stops at", `${schedule.stop}, ${schedule.timezone}`],
    schedule?.start && ["Starts at", `${schedule.start}, ${schedule.timezone}`],
    ["At the end", `${ENDS[onEnd] ?? onEnd}${onEnd === "delete" && schedule?.stop ? "; the schedule stops it" : ""}`],
    ["Notice", `${inWords(grace)} before`],
  ].filter(Boolean);
}
