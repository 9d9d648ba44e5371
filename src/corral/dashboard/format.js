// Status colours, next steps for errors, and formatting of money and time.

export const ACTIVE = ["creating", "starting", "running", "health_checking", "ready", "stopping", "exited", "restarting", "migrating", "deleting", "failed"];
export const TONES = { ready: "good", failed: "bad", exited: "idle", terminated: "idle", deleting: "warn", stopping: "warn" };
export const COMING_UP = [["startRequested", "creating"], ["instanceStarting", "starting"], ["instanceRunning", "running"], ["healthCheckStarted", "health check"], ["ready", "ready"]];
export const GOING = { stop: ["stopping", "exited"], delete: ["deleting", "terminated"] };
export const NEXT_STEP = {
  NOVITA_API_ERROR: "The provider did not carry out the call. Run corral doctor, and look at the provider's status page for an outage.",
  NO_OPTIMAL_PRODUCT_ANY_REGION: "Try another product, more regions, on-demand billing or a higher limit on the price.",
  RESOURCE_CONSTRAINTS: "No GPU is free there now. Try again later, or create one in another region.",
  INSUFFICIENT_BALANCE: "Top up the account at the provider, then create it again.",
  REGISTRY_AUTH_NOT_FOUND: "The template names a registry login that does not exist: correct it at the provider.",
  INVALID_TEMPLATE: "Correct the template at the provider, then delete this instance and create another.",
  PROVISIONING_FAILED: "Check the template's image, then delete this instance and create another.",
  STARTUP_TIMEOUT: "It is still watched and may yet come up; delete it to stop paying.",
  STARTUP_FAILED: "Look at its events, then delete it and create another.",
  HEALTH_CHECK_FAILED: "It runs but does not answer as it should: see the checks below. It is checked again, and ready when it answers.",
  HEALTH_CHECK_TIMEOUT: "It runs but does not answer: see the checks below. It is checked again, and ready when it answers.",
  SPOT_RECLAIMED: "The provider took its spot machine back. Start it again, or create another.",
  INSTANCE_VANISHED: "The provider no longer has it. Delete it here and create another.",
  AUTHENTICATION_FAILED: "The provider refused the key: set a valid NOVITA_API_KEY and start Corral again.",
};

export const money = (usd) => (usd === null || usd === undefined ? "–" : `$${usd.toFixed(usd < 10 ? 3 : 2).replace(/0$/, "")}`);
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false });
export const words = (status) => status.replaceAll("_", " ");
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

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

// The actions allowed on an instance; the API checks again.
export function allowed(data) {
  const exists = data.novitaInstanceId !== null && data.error?.code !== "INSTANCE_VANISHED";
  const settled = isReady(data);
  const { status } = data;
  return {
    start: status === "exited" || (status === "failed" && exists),
    restart: settled,
    stop: settled || ["starting", "running", "health_checking", "restarting"].includes(status) || (status === "failed" && exists),
    delete: status !== "deleting" && status !== "terminated",
  };
}

export function isReady(data) {
  return data.status === "ready" || (data.status === "running" && data.operation?.status === "completed"); // CORRAL_READY_STATUS=running
}

export const tone = (data) => (isReady(data) ? "good" : TONES[data.status] ?? "busy");
