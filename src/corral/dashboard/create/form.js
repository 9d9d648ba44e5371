// The form for a new instance: the plan with its price is shown before Create is enabled.

import { known } from "../fleet/instances.js";
import { newKey, request } from "../shared/api.js";
import { $, el, notice, perform, refuse, setText } from "../shared/dom.js";
import { money } from "../shared/format.js";

const order = $("order");
let planned = null; // {body, key}: the request the plan is for, and its idempotency key; null while the form changes
let planning;

async function openCreate() {
  $("create-error").hidden = true;
  $("create-go").disabled = true;
  $("create").showModal();
  order.elements.name.value ||= `gpu-${Date.now().toString(36).slice(-5)}`;
  order.elements.name.select();
  try {
    const { products } = await request("/api/products");
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
  const { templates } = await request("/api/templates");
  $("templates").replaceChildren(...templates.map((t) => el("option", { value: t.id, label: `${t.name} (${t.channel})` })));
  const lastUsed = [...known.values()].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1))[0]?.templateId;
  const official = templates.find((t) => t.channel === "official");
  order.elements.templateId.value ||= lastUsed ?? official?.id ?? templates[0]?.id ?? "";
}

function requestBody() {
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
  const body = requestBody();
  const mine = (planned = { body, key: newKey() });
  try {
    const [found, template] = await Promise.all([request("/api/instances?dryRun=true", { method: "POST", body }), request(`/api/templates/${encodeURIComponent(body.templateId)}`)]);
    if (planned !== mine) return; // the form changed meanwhile
    setText($("template-hint"), `Template ${template.id} is ${template.name}.`);
    $("plan").replaceChildren(...planNodes(found));
    $("create-go").disabled = !found.candidates.length;
  } catch (error) {
    if (planned === mine) $("plan").replaceChildren(el("p", { className: "problem" }, `${error.message}. ${error.nextStep ?? ""}`));
  }
}

function planNodes({ candidates, rejected }) {
  const best = candidates[0];
  const head = best ? `First choice: ${best.region} for ${money(best.price)} per hour.` : "No offer matches now.";
  const offers = candidates.map((c) => el("li", {}, el("b", {}, c.region), el("span", { className: "price" }, money(c.price)),
    el("span", { className: "note" }, `${c.productId}, ${c.cpuPerGpu} vCPU and ${c.memoryPerGpu} GB per GPU, ${c.billingMode === "spot" ? "spot" : "on demand"}`)));
  return [
    el("h3", {}, head),
    offers.length ? el("ol", { className: "offers", role: "list" }, ...offers) : "",
    rejected.length ? el("details", { className: "rejected", open: !best }, el("summary", {}, `${rejected.length} not considered`), el("ul", { role: "list" }, ...rejected.map((r) => el("li", {}, r.message)))) : "",
  ];
}

export function begin({ look }) {
  $("new").addEventListener("click", openCreate);
  $("empty-new").addEventListener("click", openCreate);
  order.addEventListener("input", plan);
  order.addEventListener("submit", (event) => {
    event.preventDefault();
    perform("create", async () => {
      const made = await request("/api/instances", { method: "POST", body: planned.body, key: planned.key });
      notice(`${planned.body.name} is being created in ${made.region}.`);
      order.elements.name.value = "";
      look(made.instanceId);
    });
  });
}
