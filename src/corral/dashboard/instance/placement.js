// Which offers were considered, and why this one; what the same request would get now; and the instance as JSON.

import { request } from "../shared/api.js";
import { $, el, setText } from "../shared/dom.js";
import { money } from "../shared/format.js";
import { copyable, problemText, render, table } from "../shared/parts.js";
import { ROOT } from "../shared/root.js";

const COLUMNS = ["Region", "Product", "Billing", "Per hour", "Outcome"];
const ORDER = "the cheapest in stock, preferred regions first";
const mode = (text) => (text === "spot" ? "spot" : text === "onDemand" ? "on demand" : "–");

let current = null; // the instance that is shown

export function begin() {
  $("offers").addEventListener("toggle", () => $("offers").open && showOffers());
}

export function showPlacement(data) {
  const { placement, billingMode, novitaInstanceId, templateId, image } = (current = data);
  const isAdopted = templateId === null && image === null;
  const outcome = isAdopted ? "Adopted there" : `${novitaInstanceId ? "Taken" : "First choice"}: ${ORDER}`;
  const chosen = placement.region ? [[placement.region, placement.productId, mode(billingMode), money(placement.price), el("b", {}, outcome)]] : [];
  const others = placement.tried.map((offer) => [offer.region, offer.productId, mode(offer.billingMode), money(offer.price), offer.reason]);
  render($("placement"), [placement, outcome], () => [chosen.length + others.length ? table("Offers considered", COLUMNS, [...chosen, ...others]) : el("p", { className: "note" }, "Not placed yet.")]);
  $("offers").hidden = isAdopted;
}

// The plan of the same request at this moment: the offers that would serve in their order, and the reasons of the others.
async function showOffers() {
  const { productName, gpuNum, billingMode, region } = current;
  const query = new URLSearchParams({ name: productName, gpuNum, region, ...(billingMode ? { billingMode } : {}) });
  setText($("offers-body"), "Loading…");
  try {
    const { candidates, rejected } = await request(`/api/products/optimal?${query}`);
    $("offers-body").replaceChildren(table("Offers now", COLUMNS, [
      ...candidates.map((offer, index) => [offer.region, offer.productId, mode(offer.billingMode), money(offer.price), index ? `choice ${index + 1}` : el("b", {}, `First choice: ${ORDER}`)]),
      ...rejected.map((offer) => [offer.region, offer.productId, mode(offer.billingMode), offer.pricePerGpu === null ? "–" : money(offer.pricePerGpu * gpuNum), offer.message]),
    ]));
  } catch (error) {
    $("offers-body").replaceChildren(el("p", { className: "problem" }, ...problemText(error)));
  }
}

export function showJson(data) {
  const text = JSON.stringify(data, null, 2);
  render($("json"), data, () => {
    const { firstElementChild: code, lastElementChild: button } = copyable(text, "the JSON");
    return [el("p", { className: "note" }, "GET ", el("code", {}, `${ROOT}/api/instances/${data.id} `), button), el("pre", { tabIndex: 0, "aria-label": "JSON of the instance" }, code)];
  });
}
