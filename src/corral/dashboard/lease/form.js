// The fields of a lease: in the form for new instances, and where the lease of an instance is changed.

import { field, group, number, option } from "../create/fields.js";
import { el } from "../shared/dom.js";

const NONE = "none"; // entered for a part that is not wanted, also where the service has a default
const [DEFAULT_GPU, DEFAULT_CPU] = [5, 10]; // percent, as the API has them
const SIGNALS = { gpu: "GPU", cpu: "CPU", lastUsed: "reported use, such as an ssh session" };
const text = (placeholder, properties = {}) => el("input", { placeholder, autocomplete: "off", spellcheck: false, ...properties });
const percent = (placeholder) => Object.assign(number(1, 100, "", "any"), { placeholder });

// *empty* says what an empty field means.
export function leaseFields(empty) {
  return [
    field("lease.maxDuration", "Maximum duration", text(empty), { hint: "Such as 8h or 1d12h, from ready." }),
    field("lease.idle.after", "End when idle for", text(empty), { hint: "Such as 30m. What cannot be measured counts as activity." }),
    field("lease.onEnd", "At the end", el("select", {}, option("stop", "stop it"), option("delete", "delete it, with its data")), { hint: "The data of a stopped machine is kept for some days." }),
    field("lease.grace", "Notice before the end", text("10m"), { hint: "Meanwhile it can be extended." }),
    el("details", { className: "whole" }, el("summary", {}, "Schedule, and what counts as idle"), el("div", { className: "fields" },
      field("lease.schedule.stop", "Stop at, as cron", text("0 20 * * 1-5")),
      field("lease.schedule.start", "Start at, as cron", text("0 8 * * 1-5"), { hint: "Starts only what its lease stopped." }),
      field("lease.schedule.timezone", "Time zone", text("Europe/Berlin"), { whole: true }),
      field("lease.idle.gpuBelow", "GPU below, percent", percent(DEFAULT_GPU)),
      field("lease.idle.cpuBelow", "CPU below, percent", percent(DEFAULT_CPU)),
      group("lease.idle.signals", "Idle means that none of these is active", "", el("div", { className: "ticks" },
        ...Object.entries(SIGNALS).map(([value, name]) => el("label", {}, el("input", { type: "checkbox", name: "lease.idle.signals", value }), name)))))),
  ];
}

const ticked = (form) => [...form.querySelectorAll('[name="lease.idle.signals"]')];
const control = (form, part) => form.elements[`lease.${part}`];
const unless = (usual, value) => (value === usual ? "" : value ?? ""); // the placeholder shows it
const valueOf = (form, part) => control(form, part).value.trim();

// Fills the fields with *lease*, as the API shows it; null: none. *empty* is what is entered for a part that it does not have.
export function fillLease(form, lease, empty = "") {
  const { maxDuration, idle, schedule, onEnd, grace } = lease ?? {};
  const values = {
    maxDuration: maxDuration ?? empty, "idle.after": idle?.after ?? empty, onEnd: onEnd ?? "stop", grace: grace ?? "",
    "schedule.stop": schedule?.stop ?? "", "schedule.start": schedule?.start ?? "",
    "schedule.timezone": schedule?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    "idle.gpuBelow": unless(DEFAULT_GPU, idle?.gpuBelow), "idle.cpuBelow": unless(DEFAULT_CPU, idle?.cpuBelow),
  };
  for (const [part, value] of Object.entries(values)) control(form, part).value = value;
  for (const box of ticked(form)) box.checked = idle?.signals.includes(box.value) ?? true;
}

// The `lease` of a request, without what was left empty; null if all was.
export function newLease(form) {
  const [maxDuration, after] = [entered(form, "maxDuration"), entered(form, "idle.after")];
  const signals = chosenSignals(form);
  const limits = { ...limitsOf(form), ...(signals.length < ticked(form).length ? { signals } : {}) };
  const parts = {
    maxDuration,
    idle: after === null ? null : after || Object.keys(limits).length ? { after, ...limits } : undefined,
    schedule: scheduleOf(form) ?? undefined,
    onEnd: valueOf(form, "onEnd") === "stop" ? undefined : valueOf(form, "onEnd"),
    grace: entered(form, "grace"),
  };
  const given = Object.entries(parts).filter(([, value]) => value !== undefined);
  return given.length ? Object.fromEntries(given) : null;
}

// The change that makes an instance have what is entered: a part that was left empty is removed.
export function leasePatch(form) {
  const after = entered(form, "idle.after");
  const idle = after ? { after, gpuBelow: DEFAULT_GPU, cpuBelow: DEFAULT_CPU, ...limitsOf(form), signals: chosenSignals(form) } : null;
  return { maxDuration: entered(form, "maxDuration") ?? null, idle, schedule: scheduleOf(form), onEnd: valueOf(form, "onEnd"), grace: entered(form, "grace") };
}

// The text of a field: undefined if it is empty, null if it is "none".
function entered(form, part) {
  const value = valueOf(form, part);
  return value.toLowerCase() === NONE ? null : value || undefined;
}

const chosenSignals = (form) => ticked(form).filter(({ checked }) => checked).map(({ value }) => value);
const limitsOf = (form) => Object.fromEntries(["gpuBelow", "cpuBelow"].filter((limit) => valueOf(form, `idle.${limit}`)).map((limit) => [limit, Number(valueOf(form, `idle.${limit}`))]));

function scheduleOf(form) {
  const [stop, start] = [valueOf(form, "schedule.stop") || null, valueOf(form, "schedule.start") || null];
  return stop || start ? { stop, start, timezone: valueOf(form, "schedule.timezone") } : null;
}
