// The plan: the offers that would be tried, in order, and why the others would not.

import { el } from "../shared/dom.js";
import { money } from "../shared/format.js";

export function planNodes({ candidates, rejected, budgets = [] }, { count, waits }) {
  const best = candidates[0];
  return [
    ...budgets.filter(({ refuses }) => refuses).map(over),
    el("h3", {}, best ? `First choice: ${best.region} for ${money(best.price)}/h${count > 1 ? " each" : ""}` : waits ? "Sold out now; it waits for capacity" : "No offer matches now"),
    candidates.length ? el("ol", { className: "offers", role: "list" }, ...candidates.map(offer)) : "",
    rejected.length ? el("details", { className: "rejected", open: !best }, el("summary", {}, `${rejected.length} not considered`), el("ul", { role: "list" }, ...rejected.map((r) => el("li", {}, r.message)))) : "",
  ];
}

// A budget that would refuse the create.
function over({ budget, limit, spent, reserved, wanted }) {
  const left = Math.max(0, limit - spent - reserved);
  return el("p", { className: "warning", role: "alert" }, `Budget ${budget} refuses it: ${money(wanted)} would be reserved, and ${money(left)} of ${money(limit)} is left`);
}

function offer({ region, price, productId, cpuPerGpu, memoryPerGpu, billingMode }) {
  return el("li", {}, el("b", {}, region), el("span", { className: "price" }, `${money(price)}/h`),
    el("span", { className: "note" }, `${productId}, ${cpuPerGpu} vCPU and ${memoryPerGpu} GB per GPU, ${billingMode === "spot" ? "spot" : "on demand"}`));
}

// The text of the button: what is made, and what it costs.
export function buttonText(plan, { count, waits }) {
  const price = plan?.candidates[0]?.price;
  const what = count > 1 ? `Create ${count}` : "Create";
  if (price !== undefined) return `${what} for ${money(price * count)}/h`;
  return plan && waits ? `${what} when available` : what;
}
