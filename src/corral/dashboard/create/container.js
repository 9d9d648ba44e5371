// The part of the form about what the machine runs: image, command, variables, secrets, ports, volumes, labels.

import { request } from "../shared/api.js";
import { el } from "../shared/dom.js";
import { LINES, MASKED, TEXT, pairs } from "../shared/pairs.js";
import { field, group, option, setHint } from "./fields.js";

const NONE = "none: not the template's"; // the placeholder of a command that is given as an empty text
const input = (placeholder = "the template's") => el("input", { placeholder, autocomplete: "off", spellcheck: false });
const editors = { env: pairs("variable", LINES), secrets: pairs("secret", MASKED), volumes: pairs("volume", volume), labels: pairs("label", TEXT) };
let stored = []; // the account's volumes

export function containerFields() {
  return el("details", { id: "container" }, el("summary", {}, "Image, command, environment, secrets, ports, volumes, labels"), el("div", { className: "fields" },
    field("image", "Image", input(), { whole: true, hint: "With a template, what is given here replaces the template's." }),
    field("imageAuthId", "Registry login, its id", input("none")),
    field("minCuda", "Lowest CUDA version", input("any, such as 12.4")),
    field("command", "Command", input()),
    field("entrypoint", "Entrypoint", input()),
    field("ports", "Ports", input("the template's, or 8080/http 22/tcp"), { whole: true }),
    group("env", "Environment", "Added to the template's. Lines NAME=value can be pasted.", ...editors.env.nodes),
    group("secrets", "Secrets", "Variables whose values are shown nowhere, stored encrypted and only while they are needed.", ...editors.secrets.nodes),
    group("volumes", "Volumes", "", ...editors.volumes.nodes),
    group("labels", "Labels", "", ...editors.labels.nodes)));
}

function volume() {
  return [
    el("select", { "aria-label": "Volume" }, option("", "Choose a volume"), ...stored.map(({ id, name, sizeGb, region }) => option(id, `${name}, ${sizeGb} GB in ${region}`))),
    el("input", { "aria-label": "Where the volume is mounted", value: "/workspace", placeholder: "/workspace", autocomplete: "off" }),
  ];
}

export async function loadVolumes(form) {
  ({ volumes: stored } = await request("/api/volumes"));
  editors.volumes.nodes[1].hidden = !stored.length;
  explainVolumes(form);
}

// The regions of the chosen volumes: an instance must be in the same.
export function volumeRegions() {
  const chosen = stored.filter(({ id }) => editors.volumes.read().some(([each]) => each === id));
  return [...new Set(chosen.map(({ region }) => region))];
}

export function explainVolumes(form) {
  const places = volumeRegions();
  const text = !stored.length ? "The account has no network volumes." : places.length > 1 ? `They are in different regions (${places.join(", ")}), so no machine can have them all.` : places.length ? `Only offers in ${places[0]} remain, because the volume is there.` : "";
  setHint(form, "volumes", text, places.length > 1 ? "warn" : "");
}

// These fields of the request.
export function containerBody(controls) {
  const made = {};
  for (const name of ["image", "imageAuthId", "minCuda", "command", "entrypoint"]) {
    const { value, placeholder } = controls[name];
    if (value.trim() || placeholder === NONE) made[name] = value.trim();
  }
  const ports = controls.ports.value.split(/[\s,]+/).filter(Boolean);
  if (ports.length || controls.ports.placeholder === NONE) made.ports = ports;
  for (const name of ["env", "secrets", "labels"]) if (editors[name].read().length) made[name] = Object.fromEntries(editors[name].read());
  const volumes = editors.volumes.read().map(([id, mount]) => ({ id, mount }));
  return volumes.length ? { ...made, volumes } : made;
}

// What the API cannot see, as it reports other problems.
export function containerProblems() {
  return ["env", "secrets", "labels"].map((field) => ({ field, message: editors[field].problem() })).filter(({ message }) => message);
}

// Fills them in like a request; its secrets have names only, and must be entered again.
export function fillContainer(form, { image, imageAuthId, minCuda, command, entrypoint, ports, env, secretNames, volumes, labels }) {
  for (const [name, text] of Object.entries({ image, imageAuthId, minCuda, command, entrypoint, ports: ports?.join(" ") ?? null })) {
    form.elements[name].value = text ?? "";
    if (text === "") form.elements[name].placeholder = NONE;
  }
  editors.env.fill(Object.entries(env));
  editors.labels.fill(Object.entries(labels));
  editors.secrets.fill(secretNames.map((name) => [name, ""]));
  editors.volumes.fill(volumes.map(({ id, mount }) => [id, mount]));
  if (secretNames.length) setHint(form, "secrets", "The values of the original are not shown to anyone: enter them again.", "warn");
}

// Removes the values of secrets from the page.
export function forgetSecrets() {
  editors.secrets.fill(editors.secrets.read().map(([name]) => [name, ""]));
}
