// Which offers were considered, and why this one; and the instance as the API returns it.

import { $, el } from "../shared/dom.js";
import { money } from "../shared/format.js";
import { copyable, table } from "../shared/parts.js";
import { ROOT } from "../shared/root.js";

const mode = (text) => (text === "spot" ? "spot" : text === "onDemand" ? "on demand" : "–");

export function showPlacement({ placement, billingMode, novitaInstanceId, templateId }) {
  const chosen = placement.region && [placement.region, placement.productId, mode(billingMode), money(placement.price),
    el("b", {}, templateId === null ? "Adopted there" : novitaInstanceId ? "Taken: the cheapest in stock, preferred regions first" : "First choice: the cheapest in stock, preferred regions first")];
  const others = placement.tried.map((offer) => [offer.region, offer.productId, mode(offer.billingMode), money(offer.price), offer.reason]);
  const rows = [...(chosen ? [chosen] : []), ...others];
  if (!rows.length) return $("placement").replaceChildren(el("p", { className: "note" }, "Not placed yet."));
  $("placement").replaceChildren(table("Offers considered", ["Region", "Product", "Billing", "Per hour", "Outcome"], rows));
}

export function showJson(data) {
  const text = JSON.stringify(data, null, 2);
  if ($("json").dataset.shown === text) return; // keep what the reader selected
  $("json").dataset.shown = text;
  const block = copyable(text, "the JSON");
  const pre = el("pre", { tabIndex: 0, "aria-label": "JSON of the instance" }, block.firstElementChild);
  $("json").replaceChildren(el("p", { className: "note" }, "GET ", el("code", {}, `${ROOT}/api/instances/${data.id} `), block.lastElementChild), pre);
}
