// The dashboard: reads the API once, then follows the event stream and reads again only what changed.
//
// Rules: what the API says is only ever text (`textContent`), never markup. A row is made once per instance and its
// parts are changed in place, so that focus stays where it is and a thousand rows cost nothing while they are quiet.

import { $, ask, el, say, webAddress } from "./tools.js";
import { COMING_UP, GOING, LIVING, NEXT_STEP, TONES, clock, money, plural, span, words } from "./words.js";

const PAGE = 500; // the API's largest page
const FEED = 100; // events kept on the page
const MANY = 25; // more changed instances than this are cheaper read as a list
const GATHER_MS = 200; // events that come together are answered together
const VITALS_MS = 5000; // how often the tiles are read; also how soon a silent connection is noticed
const REFRESH_MS = 30000; // how often everything is read again: when it was last seen changes without an event

const known = new Map(); // instance id -> {data, row}
const changed = new Set(); // instance ids to read again
let lastUpdate = null;
let connected = false;
let answering = true;
let lastSeq = null;

let noticeEnds;
function notice(text) {
  $("notice").hidden = false;
  say($("notice"), text);
  clearTimeout(noticeEnds);
  noticeEnds = setTimeout(() => ($("notice").hidden = true), 6000);
}

// One instance, one row

function makeRow(id) {
  const row = {
    badge: el("span", { className: "badge" }), name: el("h3"), old: el("span", { className: "badge", data: { tone: "warn" } }, "not seen lately"),
    product: el("span"), region: el("b"), price: el("b"), age: el("span"), template: el("span"),
    ssh: el("button", { type: "button" }, "Copy ssh"), jupyter: el("a", { className: "button", target: "_blank", rel: "noopener noreferrer" }, "Open Jupyter"),
    terminal: el("a", { className: "button", target: "_blank", rel: "noopener noreferrer" }, "Terminal"), remove: el("button", { type: "button" }, "Delete"),
    track: el("ol", { className: "track", role: "list" }), problem: el("p", { className: "problem" }), more: el("div", { className: "more" }),
  };
  row.details = el("details", {}, el("summary", {}, "Placement and checks"), row.more);
  row.element = el("li", { className: "row", id },
    el("div", { className: "head" }, row.badge, row.name, row.old, el("div", { className: "does" }, row.ssh, row.jupyter, row.terminal, row.remove)),
    el("p", { className: "facts" }, row.product, row.region, row.price, row.age, row.template),
    row.track, row.problem, row.details);
  row.ssh.addEventListener("click", () => copy(known.get(id).data.connectionDetails.ssh));
  row.remove.addEventListener("click", () => askDelete(known.get(id).data));
  row.details.addEventListener("toggle", () => row.details.open && fillMore(known.get(id)));
  return row;
}

function showRow({ data, row }) {
  const tone = TONES[data.status] ?? "busy";
  const good = tone === "busy" && data.operation?.phases.ready && data.status === "running"; // CORRAL_READY_STATUS=running
  say(row.badge, words(data.status));
  row.badge.dataset.tone = good ? "good" : tone;
  row.element.dataset.tone = tone;
  row.element.dataset.status = data.status;
  say(row.name, data.name);
  row.old.hidden = !data.stale;
  say(row.product, `${data.gpuNum} × ${data.productName}`);
  say(row.region, data.region);
  say(row.price, data.price === null ? "price not known yet" : `${money(data.price)} per hour, ${data.billingMode === "spot" ? "spot" : "on demand"}`);
  say(row.template, `template ${data.templateId}`);
  const { ssh, jupyter, webTerminal } = data.connectionDetails;
  const ended = data.status === "terminated" || data.status === "deleting";
  row.ssh.hidden = !ssh || ended;
  row.ssh.setAttribute("aria-label", `Copy the ssh command of ${data.name}`);
  for (const [link, address, what] of [[row.jupyter, jupyter, "Jupyter"], [row.terminal, webTerminal, "the terminal"]]) {
    link.hidden = !webAddress(address) || ended;
    link.href = webAddress(address) ?? "#";
    link.setAttribute("aria-label", `Open ${what} of ${data.name}`);
  }
  row.remove.hidden = ended;
  row.remove.setAttribute("aria-label", `Delete ${data.name}`);
  row.track.replaceChildren(...steps(data));
  row.track.setAttribute("aria-label", `Progress of ${data.name}`);
  row.problem.hidden = !data.error;
  if (data.error) say(row.problem, `${data.error.code}: ${data.error.message}. ${NEXT_STEP[data.error.code] ?? "Its events say more; delete it to stop paying."}`);
  if (row.details.open) fillMore({ data, row });
  age({ data, row });
  sift({ data, row });
}

function age({ data, row }) {
  const since = Date.now() - Date.parse(data.createdAt);
  const due = data.estimatedReadyTime ? Date.parse(data.estimatedReadyTime) - Date.now() : 0;
  say(row.age, `${span(Math.max(since, 1000)).replace(/\.\d/, "")} old${due > 0 ? `, ready in about ${span(Math.max(due, 10000))}` : ""}`);
}

function steps(data) {
  const asked = data.operation;
  const going = GOING[asked?.kind];
  if (going) {
    return going.map((word) => {
      const reached = word === going[1] ? data.status === word : true;
      const at = word === "exited" ? data.stoppedAt : null;
      return step(words(word), reached ? (data.status === word && word === going[0] ? "now" : "done") : "ahead", at ? clock(at) : "");
    });
  }
  const stamps = asked?.phases ?? {};
  const began = Date.parse(stamps.startRequested ?? data.createdAt);
  const last = COMING_UP.findLastIndex(([stamp]) => stamps[stamp]);
  return COMING_UP.map(([stamp, word], index) => {
    const at = stamps[stamp];
    const state = index === last && !stamps.ready ? (data.status === "failed" ? "failed" : "now") : index <= last ? "done" : "ahead";
    const when = !at ? "" : index === 0 ? clock(at) : `+${span(Date.parse(at) - began)}`;
    return step(word, state, when, at);
  });
}

function step(word, state, when, at) {
  const node = el("li", { data: { step: state } }, word, el("span", { className: "at" }, when || "\u00a0"));
  if (state === "now") node.setAttribute("aria-current", "step");
  if (at) node.title = new Date(at).toLocaleString();
  return node;
}

function fillMore({ data, row }) {
  const { placement, healthCheck } = data;
  const facts = [
    ["Placed", placement.region ? `${placement.region} on ${placement.productId} for ${money(placement.price)} per hour: the cheapest that could be had, preferred regions first` : "not placed yet"],
    ...placement.tried.map((t) => ["Passed over", `${t.region}${t.productId ? ` ${t.productId}` : ""}${t.price === null ? "" : ` at ${money(t.price)}`}: ${t.reason}`]),
    ...data.portMappings.map((p) => ["Port", `${p.port} ${p.type} ${p.endpoint ?? "no address yet"}`]),
    ...(healthCheck?.endpoints ?? []).map((e) => ["Check", `${e.port} ${e.type}: ${e.status}${e.error ? `, ${e.error.message} (${words(e.error.category)})` : ` in ${e.responseTime} ms`}, ${clock(e.lastChecked)}`]),
    ["Ids", `${data.id}${data.novitaInstanceId ? `, at the provider ${data.novitaInstanceId}` : ""}`],
    ["Last seen", data.lastSeenAt ? clock(data.lastSeenAt) : "not yet"],
  ];
  row.more.replaceChildren(el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied: ${text}`);
  } catch {
    notice(text); // the browser forbids it: show what to type
  }
}

// All instances

async function everyInstance() {
  const newest = await ask(`/api/instances?limit=${PAGE}`);
  if (newest.total <= PAGE) return newest.instances;
  // The ended pile up; what lives must not be lost behind them.
  const living = await Promise.all(LIVING.map(async (status) => {
    const found = [];
    for (let total = 1; found.length < total; ) {
      const page = await ask(`/api/instances?status=${status}&limit=${PAGE}&offset=${found.length}`);
      if (!page.instances.length) break;
      found.push(...page.instances);
      total = page.total;
    }
    return found;
  }));
  return [...newest.instances, ...living.flat()];
}

function take(data) {
  const entry = known.get(data.id) ?? { data: null, row: makeRow(data.id), seen: "" };
  const seen = JSON.stringify({ ...data, lastSeenAt: null });
  const [isNew, isSame] = [entry.data === null, entry.seen === seen];
  Object.assign(entry, { data, seen });
  if (isSame && !entry.row.details.open) return false;
  known.set(data.id, entry);
  showRow(entry);
  return isNew;
}

function forget(id) {
  known.get(id).row.element.remove();
  known.delete(id);
}

function arrange() {
  const inOrder = [...known.values()].sort((a, b) => (a.data.createdAt < b.data.createdAt ? 1 : -1));
  let place = $("list").firstElementChild;
  for (const { row } of inOrder) {
    if (row.element === place) place = place.nextElementSibling;
    else $("list").insertBefore(row.element, place);
  }
}

function summarise() {
  const counts = new Map();
  let usd = 0;
  let billed = 0;
  for (const { data } of known.values()) {
    if (data.status === "terminated") continue;
    counts.set(data.status, (counts.get(data.status) ?? 0) + 1);
    const costs = data.novitaInstanceId && data.status !== "exited" && data.error?.code !== "INSTANCE_VANISHED";
    if (costs) [usd, billed] = [usd + (data.price ?? 0), billed + 1];
  }
  const living = [...counts.values()].reduce((sum, count) => sum + count, 0);
  say($("count"), String(living));
  $("by-status").replaceChildren(...LIVING.filter((s) => counts.has(s)).map((s) => el("li", { className: "badge", data: { tone: TONES[s] ?? "busy" } }, `${counts.get(s)} ${words(s)}`)));
  say($("rate"), money(usd));
  say($("rate-note"), `${plural(billed, "instance")} at the provider`);
  $("empty").hidden = [...known.values()].some(({ row }) => !row.element.hidden);
  say($("empty"), living ? "Nothing here matches." : "No instances yet. “New instance” shows what can be had and at which price.");
}

function sift({ data, row }) {
  const [wanted, status] = [$("find").value.trim().toLowerCase(), $("show").value];
  const shown = status === "" || (status === "living" ? data.status !== "terminated" : data.status === status);
  const text = `${data.name} ${data.id} ${data.region} ${data.productName} ${data.status} ${data.novitaInstanceId ?? ""}`.toLowerCase();
  row.element.hidden = !(shown && text.includes(wanted));
}

async function loadAll() {
  const before = [...known.keys()];
  const found = await everyInstance();
  const told = new Set(found.map((data) => data.id));
  for (const id of before) if (!told.has(id)) forget(id);
  const added = found.map(take).some(Boolean);
  if (added) arrange();
  summarise();
  fresh();
}

let reading = Promise.resolve();
function inTurn(work) {
  return (reading = reading.then(work, work)); // one read at a time: an older answer never lands on a newer one
}

let gathering = null;
function look(id, delay = GATHER_MS) {
  changed.add(id);
  gathering ??= setTimeout(() => inTurn(readChanged), delay);
}

async function readChanged() {
  const ids = [...changed];
  changed.clear();
  gathering = null;
  if (ids.length > MANY) return loadAll().catch(() => ids.forEach((id) => look(id, VITALS_MS)));
  const answers = await Promise.allSettled(ids.map((id) => ask(`/api/instances/${encodeURIComponent(id)}`)));
  if (answers.map(({ value }) => value !== undefined && take(value)).some(Boolean)) arrange();
  answers.forEach(({ reason }, index) => reason && reason.code !== "INSTANCE_NOT_FOUND" && look(ids[index], VITALS_MS));
  summarise();
}

// The stream, and whether it can be trusted

function fresh() {
  lastUpdate = new Date();
}

function showLink() {
  const live = connected && answering;
  $("link").dataset.state = live ? "live" : "lost";
  say($("link"), live ? "live" : `reconnecting, last update ${lastUpdate ? clock(lastUpdate) : "none yet"}`);
}

function follow() {
  const stream = new EventSource(`/api/events/stream${lastSeq === null ? "" : `?after=${lastSeq}`}`);
  stream.onopen = async () => {
    try {
      await inTurn(loadAll); // after the stream is open, so that nothing falls between
      connected = stream.readyState === EventSource.OPEN; // it may have been lost meanwhile
      showLink();
      if (!$("feed").childElementCount) await recall();
    } catch {
      if (stream.readyState === EventSource.CLOSED) return; // `onerror` comes back already
      stream.close();
      setTimeout(follow, 1000);
    }
  };
  stream.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    lastSeq = event.seq;
    fresh();
    tell(event);
    look(event.instanceId);
  };
  stream.onerror = () => {
    connected = false;
    showLink();
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 1000); // refused: the browser gives up, we do not
  };
}

async function recall() {
  const { events } = await ask(`/api/events?last=${FEED / 2}`);
  const told = new Set([...$("feed").children].map((line) => line.dataset.seq)); // the stream may have been quicker
  $("feed").append(...events.reverse().filter((e) => !told.has(String(e.seq))).map(line));
}

function tell(event) {
  $("feed").prepend(line(event));
  if ($("feed").childElementCount > FEED) $("feed").lastElementChild.remove();
}

function line(event) {
  const status = event.status;
  return el("li", { data: { seq: event.seq } },
    el("time", { dateTime: event.timestamp }, clock(event.timestamp)), el("b", {}, String(event.data.name ?? event.instanceId)), " ",
    el("span", { className: "badge", data: { tone: TONES[status] ?? "busy" } }, words(status)),
    el("p", {}, event.error ? `${event.error.code}: ${event.error.message}` : event.reason));
}

async function readVitals() {
  try {
    showProvider(await ask("/health"));
    const [queue, { caches }] = await Promise.all([ask("/api/jobs/stats"), ask("/api/cache/stats")]);
    say($("queue"), `${queue.pendingJobs} waiting`);
    say($("queue-note"), `${queue.processingJobs} running, ${queue.failedJobs} failed`);
    const all = Object.values(caches);
    const [hits, asked, size] = [sum(all, "hits"), sum(all, "hits") + sum(all, "misses"), sum(all, "size")];
    say($("caches"), asked ? `${Math.round((100 * hits) / asked)} % hits` : "idle");
    say($("caches-note"), `${plural(size, "value")} held`);
    answering = true;
    if (connected) fresh();
  } catch {
    answering = false;
  }
  showLink();
  setTimeout(readVitals, VITALS_MS);
}

function showProvider({ services, dependencies }) {
  const provider = dependencies.novitaApi ?? {};
  $("simulator").hidden = provider.kind !== "simulator";
  const breaker = `breaker ${words((provider.breaker ?? "unknown").toLowerCase())}`;
  const down = Object.keys(services).filter((name) => services[name] !== "up").map((name) => `${name} is down`);
  say($("breaker"), provider.breaker === "CLOSED" ? "reachable" : breaker);
  say($("budget"), [`${provider.callsPerMinute ?? "?"} calls a minute allowed`, breaker, ...down].join(", "));
}

const sum = (records, field) => records.reduce((total, record) => total + record[field], 0);

// Create

const order = $("order");
let planned = null; // {body, key}: the wish the plan is for, and the key that makes it happen once; null while it changes
let planning;

async function openCreate() {
  $("create-error").hidden = true;
  $("create-go").disabled = true;
  $("create").showModal();
  order.elements.name.value ||= `gpu-${Date.now().toString(36).slice(-5)}`;
  order.elements.name.select();
  try {
    const { products } = await ask("/api/products");
    const chosen = order.elements.productName.value;
    const cheapest = new Map();
    for (const p of products) if (!cheapest.has(p.name)) cheapest.set(p.name, p);
    order.elements.productName.replaceChildren(...[...cheapest.values()].map((p) => el("option", { value: p.name, selected: p.name === chosen }, `${p.name}, from ${money(p.pricePerGpu)} per GPU`)));
    const regions = [...new Set(products.flatMap((p) => p.regions))].sort();
    const first = order.elements.region.value;
    order.elements.region.replaceChildren(el("option", { value: "" }, "default"), ...regions.map((r) => el("option", { value: r.split(" ")[0], selected: r.split(" ")[0] === first }, r)));
    await offerTemplates();
  } catch (error) {
    refuse("create", error);
  }
  plan();
}

async function offerTemplates() {
  const { templates } = await ask("/api/templates");
  $("templates").replaceChildren(...templates.map((t) => el("option", { value: t.id, label: `${t.name} (${t.channel})` })));
  const lastUsed = [...known.values()].sort((a, b) => (a.data.createdAt < b.data.createdAt ? 1 : -1))[0]?.data.templateId;
  const official = templates.find((t) => t.channel === "official");
  order.elements.templateId.value ||= lastUsed ?? official?.id ?? templates[0]?.id ?? "";
}

function wish() {
  const { name, productName, templateId, region, gpuNum, rootfsSize, billingMode, maxPrice } = order.elements;
  const made = { name: name.value.trim(), productName: productName.value, templateId: templateId.value.trim(), gpuNum: gpuNum.value, rootfsSize: rootfsSize.value };
  made.billingMode = billingMode.value === "fallback" ? "spot" : billingMode.value;
  if (billingMode.value === "fallback") made.spotFallback = true;
  if (region.value) made.region = region.value;
  if (maxPrice.value) made.maxPrice = maxPrice.value;
  return made;
}

function plan() {
  clearTimeout(planning);
  planned = null;
  $("create-go").disabled = true;
  if (!order.checkValidity()) {
    $("plan").replaceChildren(el("p", { className: "note" }, "The plan appears when every field is filled in."));
    return;
  }
  planning = setTimeout(showPlan, 250);
}

async function showPlan() {
  const body = wish();
  const mine = (planned = { body, key: crypto.randomUUID() });
  try {
    const [found, template] = await Promise.all([ask("/api/instances?dryRun=true", { method: "POST", body }), ask(`/api/templates/${encodeURIComponent(body.templateId)}`)]);
    if (planned !== mine) return; // somebody typed on
    say($("template-hint"), `Template ${template.id} is ${template.name}.`);
    $("plan").replaceChildren(...drawn(found));
    $("create-go").disabled = !found.candidates.length;
  } catch (error) {
    if (planned === mine) $("plan").replaceChildren(el("p", { className: "problem" }, `${error.message}. ${NEXT_STEP[error.code] ?? ""}`));
  }
}

function drawn({ candidates, rejected }) {
  const best = candidates[0];
  const head = best ? `It will be tried in ${best.region} first, for ${money(best.price)} per hour.` : "Nothing can be had like this now.";
  const offers = candidates.map((c) => el("tr", {}, ...[c.region, c.productId, `${c.cpuPerGpu} vCPU, ${c.memoryPerGpu} GB per GPU`, c.billingMode === "spot" ? "spot" : "on demand", money(c.price)].map((t) => el("td", {}, t))));
  const titles = ["Region", "Product", "With", "Billing", "USD per hour"].map((t) => el("th", { scope: "col" }, t));
  return [
    el("p", {}, el("b", {}, head)),
    offers.length ? el("table", {}, el("thead", {}, el("tr", {}, ...titles)), el("tbody", {}, ...offers)) : "",
    rejected.length ? el("div", { className: "rejected" }, el("b", {}, "Not considered"), el("ul", {}, ...rejected.map((r) => el("li", {}, r.message)))) : "",
  ];
}

function refuse(dialog, error) {
  $(`${dialog}-error`).hidden = false;
  say($(`${dialog}-error`), error.message);
}

async function act(dialog, doing) {
  $(`${dialog}-go`).disabled = true;
  try {
    await doing();
    $(dialog).close();
  } catch (error) {
    refuse(dialog, error);
  }
  $(`${dialog}-go`).disabled = false;
}

order.addEventListener("input", plan);
order.addEventListener("submit", (event) => {
  event.preventDefault();
  act("create", async () => {
    const made = await ask("/api/instances", { method: "POST", body: planned.body, key: planned.key });
    notice(`${planned.body.name} is being created in ${made.region}.`);
    order.elements.name.value = "";
    look(made.instanceId);
  });
});

// Delete

let condemned = null;
function askDelete(data) {
  condemned = { id: data.id, name: data.name, key: crypto.randomUUID() };
  $("delete-error").hidden = true;
  say($("delete-what"), `${data.name}, ${data.gpuNum} × ${data.productName} in ${data.region}`);
  $("delete").showModal();
}

$("delete").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  act("delete", async () => {
    await ask(`/api/instances/${encodeURIComponent(condemned.id)}`, { method: "DELETE", key: condemned.key });
    notice(`${condemned.name} is being deleted.`);
    look(condemned.id);
    $("delete").addEventListener("close", () => $("instances").focus(), { once: true }); // its button goes away
  });
});

// Begin

for (const status of LIVING) $("show").append(el("option", { value: status }, words(status)));
for (const control of [$("find"), $("show")]) control.addEventListener("input", () => (known.forEach(sift), summarise()));
for (const closer of document.querySelectorAll("[data-close]")) closer.addEventListener("click", () => closer.closest("dialog").close());
$("new").addEventListener("click", openCreate);
setInterval(() => known.forEach((entry) => entry.row.element.hidden || age(entry)), 1000);
setInterval(() => connected && !document.hidden && inTurn(loadAll).catch(() => {}), REFRESH_MS);
follow();
readVitals();
