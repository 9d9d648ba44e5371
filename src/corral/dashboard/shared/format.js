// Status colours, and formatting of money and time.

export const ACTIVE = ["creating", "starting", "running", "health_checking", "ready", "stopping", "exited", "restarting", "migrating", "deleting", "failed"];
export const TONES = { ready: "good", failed: "bad", exited: "idle", terminated: "idle", deleting: "warn", stopping: "warn" };
export const RESTING = ["exited", "failed", "terminated"];
export const COMING_UP = [["startRequested", "creating"], ["instanceStarting", "starting"], ["instanceRunning", "running"], ["healthCheckStarted", "health check"], ["ready", "ready"]];
export const GOING = { stop: ["stopping", "exited"], delete: ["deleting", "terminated"] };

export const money = (usd) => (usd === null || usd === undefined ? "–" : usd > 0 && usd < 0.005 ? "<$0.01" : `$${usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`);
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false });
export const words = (status) => status.replaceAll("_", " ");
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;


// The result of requests whose dialog was cancelled, or opened for others, while they were sent.
export function cancelled(done, unsent, problems) {
  return [done, unsent ? `Cancelled: ${plural(unsent, "request")} not sent.` : "", ...problems].filter(Boolean).join(" ");
}

export function span(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// The age of what was made *at*, short: a table has little room.
export function age(at) {
  const seconds = Math.max(0, Date.now() - Date.parse(at)) / 1000;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function isReady(data) {
  return data.status === "ready" || (data.status === "running" && data.readyAt !== null); // CORRAL_READY_STATUS=running
}

export const isMoving = (data) => !isReady(data) && !RESTING.includes(data.status);
export const tone = (data) => (isReady(data) ? "good" : TONES[data.status] ?? "busy");
