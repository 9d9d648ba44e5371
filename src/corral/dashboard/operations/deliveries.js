// What was sent to webhook receivers: filtered, page by page, each with a button that sends it again.

import { request } from "../shared/api.js";
import { deliveryTable } from "../shared/deliveries.js";
import { $, el } from "../shared/dom.js";
import { bodyOf, render } from "../shared/parts.js";

const PAGE = 20;
const MOST = 500; // the API's largest page
let shown = PAGE;

export function begin(reload) {
  $("deliveries-instance").value = new URLSearchParams(location.search).get("instance") ?? "";
  for (const control of [$("deliveries-status"), $("deliveries-instance")]) {
    control.addEventListener("change", () => {
      shown = PAGE;
      reload();
    });
  }
}

export async function show() {
  const query = new URLSearchParams({ limit: shown });
  if ($("deliveries-status").value) query.set("status", $("deliveries-status").value);
  if ($("deliveries-instance").value.trim()) query.set("instanceId", $("deliveries-instance").value.trim());
  const { deliveries, total } = await request(`/api/webhooks/deliveries?${query}`);
  render(bodyOf("deliveries"), [deliveries, total], () => (deliveries.length
    ? [deliveryTable(deliveries, { onSent: show, withInstance: true }), el("p", { className: "line" }, `${deliveries.length} of ${total}`, total > deliveries.length && shown < MOST ? more() : null)]
    : [el("p", { className: "note" }, "None.")]));
}

function more() {
  const button = el("button", { type: "button" }, "Show more deliveries");
  button.addEventListener("click", () => {
    shown = Math.min(MOST, shown + 5 * PAGE);
    show();
  });
  return button;
}
