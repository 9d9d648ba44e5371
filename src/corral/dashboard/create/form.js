// The form for new instances. What it would do is shown before it can be sent: offers, price, and every error under its
// field, all as the API answers a dry run.

import { fillLease, leaseFields, newLease } from "../lease/form.js";
import { newKey, request } from "../shared/api.js";
import { $, el, notice, setText } from "../shared/dom.js";
import { cancelled, money } from "../shared/format.js";
import { copyable } from "../shared/parts.js";
import { ROOT } from "../shared/root.js";
import { corralCommand, curlCommand } from "./commands.js";
import { containerBody, containerFields, containerProblems, explainVolumes, fillContainer, forgetSecrets, loadVolumes, volumeRegions } from "./container.js";
import { field, group, number, option, setHint, showErrors } from "./fields.js";
import { copyName, namesOf, takenNames } from "./names.js";
import { buttonText, planNodes } from "./plan.js";
import { loadTemplates, showPorts, templateField } from "./templates.js";

const PLAN_MS = 250; // after the last key press
const MOST = 20; // instances made with one press: a slip of the finger costs no more
const WAITS = [["", "no: fail at once if it stays sold out"], ["30m", "up to 30 minutes"], ["2h", "up to 2 hours"], ["24h", "up to 24 hours"]];

const order = el("form", { id: "order", method: "dialog", noValidate: true });
const controls = order.elements;
let look = () => {};
let planned = null; // {bodies, keys}: the requests of the shown plan, each with its idempotency key; null while the form changes
let planning;
let [listedFor, askedName, askedTemplate] = [null, "", ""]; // what the prices, the warning and the ports are of

export function begin(fleet) {
  look = fleet.look;
  order.append(
    el("h2", { id: "create-title" }, "New instance"),
    el("div", { className: "sides" }, el("div", {}, mainFields(), containerFields(), moreFields()),
      el("div", {}, el("section", { id: "plan", "aria-live": "polite", "aria-label": "Plan" }), el("details", { id: "commands" }, el("summary", {}, "The same as a command"), el("div", { id: "command-lines" })))),
    el("p", { id: "create-error", className: "problem", role: "alert", hidden: true }),
    el("div", { className: "actions" }, el("button", { type: "button", id: "create-cancel" }, "Cancel"), el("button", { id: "create-go", className: "primary", type: "submit", disabled: true }, "Create")));
  fillLease(order, null);
  document.body.append(el("dialog", { id: "create", "aria-labelledby": "create-title" }, order));
  $("create-cancel").addEventListener("click", () => $("create").close());
  $("create").addEventListener("close", forgetSecrets);
  order.addEventListener("input", plan);
  order.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!$("create-go").disabled) send();
  });
  for (const id of ["new", "empty-new"]) $(id)?.addEventListener("click", () => open());
  const copied = new URLSearchParams(location.search).get("duplicate");
  if (copied) openCopy(copied);
  else if (location.hash === "#create") open();
}

function mainFields() {
  return el("div", { className: "fields" },
    field("name", "Name", el("input", { autocomplete: "off", spellcheck: false, maxLength: 100 }), { whole: true }),
    field("productName", "Product", el("select"), { whole: true }),
    templateField(),
    field("billingMode", "Billing", el("select", {}, option("spot"), option("fallback", "spot, else on demand"), option("onDemand", "on demand"))),
    field("count", "Count", number(1, MOST, 1)),
    field("gpuNum", "GPUs", number(1, 8, 1)),
    field("rootfsSize", "Disk, GB", number(10, 1000, 60)),
    ...leaseFields("none, or the service's default"));
}

function moreFields() {
  return el("details", { id: "more-options" }, el("summary", {}, "Regions, price limit, waiting, webhook, health check"), el("div", { className: "fields" },
    field("region", "Try first", el("select", {}, option("", "the service's choice"))),
    field("maxPrice", "Maximum price, USD per GPU-hour", Object.assign(number(0.01, 10000, "", 0.01), { placeholder: "any" })),
    group("regions", "Only in these regions", "None chosen: in any region.", el("div", { id: "regions", className: "ticks" })),
    field("waitForCapacity", "Wait while sold out", el("select", {}, ...WAITS.map(([value, text]) => option(value, text)))),
    field("healthPort", "Health check: port", Object.assign(number(1, 65535), { placeholder: "every port" })),
    field("healthPath", "Health check: path", el("input", { placeholder: "/", autocomplete: "off" })),
    field("webhookUrl", "Webhook", el("input", { type: "url", placeholder: "https://…", autocomplete: "off" }), { whole: true }),
    field("webhookFormat", "Format of messages", el("select", {}, option("", "signed JSON"), option("slack", "Slack messages"), option("discord", "Discord messages")))));
}

// Opens the form; *copy* is a request to begin with.
async function open(copy = null) {
  $("create-error").hidden = true;
  showErrors(order, null);
  stale("Reading the offers…");
  if (!$("create").open) $("create").showModal();
  if (copy) fill(copy);
  controls.name.value ||= `gpu-${Date.now().toString(36).slice(-5)}`;
  controls.name.select();
  try {
    await Promise.all([loadProducts(copy), loadVolumes(order)]);
    await loadTemplates(copy ? copy.templateId ?? "" : await lastTemplate());
    if (copy) fillContainer(order, copy.original);
  } catch (error) {
    refuse(error);
  }
  plan();
}

async function openCopy(id) {
  history.replaceState(null, "", `${ROOT}/`); // a reload does not open it again
  try {
    const [data, copied] = await Promise.all([request(`/api/instances/${encodeURIComponent(id)}`), request(`/api/instances/${encodeURIComponent(id)}/request`)]);
    await open({ ...copied, name: copyName(data), original: data });
    if (copied.webhookHost) setHint(order, "webhookUrl", `The original reports to ${copied.webhookHost}; enter the address again to have this one do so.`, "warn");
  } catch (error) {
    notice(`It cannot be copied: ${error.message}`);
  }
}

function fill(copy) {
  const { name, gpuNum, rootfsSize, billingMode, spotFallback, maxPrice, waitForCapacity, healthCheck, lease } = copy;
  const [wait, ...others] = controls.waitForCapacity.options;
  const seconds = waitForCapacity ? `${waitForCapacity}s` : "";
  if (![wait, ...others].some(({ value }) => value === seconds)) controls.waitForCapacity.append(option(seconds, `${waitForCapacity} seconds`));
  const values = { name, gpuNum, rootfsSize, billingMode: spotFallback ? "fallback" : billingMode, count: 1, maxPrice: maxPrice ?? "", waitForCapacity: seconds, webhookUrl: "", webhookFormat: "",
    healthPath: healthCheck.path === "/" ? "" : healthCheck.path, healthPort: healthCheck.targetPort ?? "" };
  for (const [field, value] of Object.entries(values)) controls[field].value = value;
  fillLease(order, lease, "none");
  $("more-options").open = true;
}

const lastTemplate = async () => (await request("/api/instances?fields=summary&limit=1")).instances[0]?.templateId;
const mode = () => (controls.billingMode.value === "onDemand" ? "onDemand" : "spot");

// The products with their prices in the chosen billing mode, and the regions that they are sold in.
async function loadProducts(copy = null) {
  listedFor = mode();
  const { products } = await request(`/api/products?billingMode=${listedFor}`);
  const chosen = copy?.productName ?? controls.productName.value;
  const cheapest = new Map();
  for (const product of products) if (!cheapest.has(product.name)) cheapest.set(product.name, product);
  controls.productName.replaceChildren(...[...cheapest.values()].map(({ name, pricePerGpu }) => option(name, `${name}, ${pricePerGpu === null ? "no price" : `from ${money(pricePerGpu)}/h`} per GPU`)));
  if (chosen && !cheapest.has(chosen)) controls.productName.append(option(chosen, `${chosen}, not for sale now`));
  if (chosen) controls.productName.value = chosen;
  showRegions([...new Set(products.flatMap(({ regions }) => regions))].sort(), copy);
}

function showRegions(names, copy) {
  const known = new Map(names.map((name) => [name.split(" ")[0], name]));
  const first = controls.region.value;
  const ticked = copy?.regions ?? chosenRegions();
  const codes = [...new Set([...ticked, ...known.keys()])]; // the order of a copied request is kept
  controls.region.replaceChildren(option("", "the service's choice"), ...codes.map((code) => option(code, known.get(code) ?? code)));
  controls.region.value = copy ? "" : codes.includes(first) ? first : "";
  $("regions").replaceChildren(...codes.map((code) => el("label", {}, el("input", { type: "checkbox", value: code, checked: ticked.includes(code) }), known.get(code) ?? code)));
}

const chosenRegions = () => [...$("regions").querySelectorAll(":checked")].map(({ value }) => value);

function requestBody() {
  const value = (name) => controls[name].value.trim();
  const made = { name: value("name"), productName: value("productName"), gpuNum: value("gpuNum"), rootfsSize: value("rootfsSize"), billingMode: mode() };
  if (controls.templateId?.value) made.templateId = controls.templateId.value;
  if (value("billingMode") === "fallback") made.spotFallback = true;
  for (const name of ["region", "maxPrice", "waitForCapacity", "webhookUrl", "webhookFormat"]) if (value(name)) made[name] = value(name);
  const regions = chosenRegions().length ? chosenRegions() : volumeRegions();
  if (regions.length) made.regions = regions;
  if (value("healthPath")) made.healthCheck = { path: value("healthPath") };
  if (value("healthPort")) made.healthCheck = { ...made.healthCheck, targetPort: value("healthPort") };
  const lease = newLease(order);
  return { ...made, ...(lease ? { lease } : {}), ...containerBody(controls) };
}

function plan() {
  clearTimeout(planning);
  explainVolumes(order);
  planned = null;
  $("create-go").disabled = true;
  planning = setTimeout(showPlan, PLAN_MS);
}

function stale(text) {
  $("plan").replaceChildren(el("p", { className: "note" }, text));
}

function counted() {
  const count = Number(controls.count.value);
  return Number.isInteger(count) && count >= 1 && count <= MOST ? count : null;
}

async function showPlan() {
  if (!$("create").open) return;
  const [body, count] = [requestBody(), counted()];
  const names = namesOf(body.name, count ?? 1);
  const mine = (planned = { bodies: names.map((name) => ({ ...body, name })), keys: names.map(newKey) });
  const options = { count: count ?? 1, waits: Boolean(body.waitForCapacity) };
  let [found, problem] = [null, null];
  try {
    if (listedFor !== mode()) await loadProducts();
    found = await request("/api/instances?dryRun=true", { method: "POST", body: mine.bodies.at(-1) });
  } catch (error) {
    problem = error;
  }
  if (planned !== mine) return; // the form changed meanwhile
  problem = withOwn(problem, count);
  const left = showErrors(order, problem);
  if (problem) stale(left || "The plan appears when every field is right.");
  else $("plan").replaceChildren(...planNodes(found, options));
  setText($("create-go"), buttonText(problem ? null : found, options));
  $("create-go").disabled = problem !== null || !(found.candidates.length || options.waits);
  showCommands(mine.bodies, options.count);
  warn(names, mine);
  if (body.templateId && body.templateId !== askedTemplate) describe(body.templateId);
}

// *problem* together with what the API does not check.
function withOwn(problem, count) {
  const own = containerProblems();
  if (count === null) own.push({ field: "count", message: `must be a whole number between 1 and ${MOST}` });
  return own.length ? { ...problem, message: problem?.message ?? "", fields: [...(problem?.fields ?? []), ...own] } : problem;
}

async function warn(names, mine) {
  const asked = names.join();
  if (asked === askedName) return;
  const text = await takenNames(names.filter(Boolean)).catch(() => []);
  if (planned !== mine) return;
  askedName = asked;
  setHint(order, "name", text.length ? text : names.length > 1 ? `They are named ${names[0]} to ${names.at(-1)}.` : "", text.length ? "warn" : "");
}

async function describe(id) {
  askedTemplate = id;
  setHint(order, "templateId", "");
  await showPorts(order, id).catch(() => (askedTemplate = "")); // an error of the template is that of the plan
}

function showCommands(bodies, count) {
  const command = corralCommand(requestBody(), count);
  $("command-lines").replaceChildren(
    command ? copyable(command, "the corral command") : el("p", { className: "note" }, "The command has no option for a health check or for what counts as idle; curl has."),
    copyable(curlCommand(bodies, Boolean(document.querySelector("#user button"))), "the curl command"));
  for (const code of $("command-lines").querySelectorAll("code")) code.tabIndex = 0; // long ones scroll
}

async function send() {
  const mine = planned;
  const { bodies, keys } = mine;
  const isShown = () => planned === mine && $("create").open; // it may be cancelled or changed meanwhile
  const [made, failed] = [[], []];
  $("create-go").disabled = true;
  $("create-error").hidden = true;
  for (const [index, body] of bodies.entries()) {
    if (!isShown()) break;
    if (bodies.length > 1) setText($("create-go"), `Creating ${index + 1} of ${bodies.length}`);
    try {
      made.push({ name: body.name, ...(await request("/api/instances", { method: "POST", body, key: keys[index] })) });
    } catch (error) {
      failed.push({ index, error });
    }
  }
  for (const { instanceId } of made) look(instanceId);
  askedName = "";
  const done = made.length > 1 ? `${made.length} instances are being created.` : made.length ? `${made[0].name} is being created in ${made[0].region}.` : "";
  if (!isShown()) return notice(cancelled(done, bodies.length - made.length - failed.length, failed.map(({ index, error }) => `${bodies[index].name}: ${error.message}`)));
  if (failed.length) return refuseSome(made, failed, bodies, keys);
  notice(done);
  controls.name.value = "";
  controls.count.value = 1;
  $("create").close();
}

// What failed can be sent again, with the same keys: what was made in spite of an error is not made twice.
function refuseSome(made, failed, bodies, keys) {
  planned = { bodies: failed.map(({ index }) => bodies[index]), keys: failed.map(({ index }) => keys[index]) };
  const text = showErrors(order, failed[0].error) || "Some fields must change; see above.";
  refuse({ message: bodies.length === 1 ? text : `${made.length} of ${bodies.length} are being created; ${failed.map(({ index }) => bodies[index].name).join(", ")} not: ${text}` });
  setText($("create-go"), "Try again");
  $("create-go").disabled = false;
}

function refuse(error) {
  $("create-error").hidden = false;
  setText($("create-error"), error.message);
}
