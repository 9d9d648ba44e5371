// How far the image of an instance is pulled.

import { request } from "./api.js";
import { el } from "./dom.js";
import { allows } from "./roles.js";

const size = (bytes) => (bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);

// Reads and shows it in *node*, which is empty when no image is being pulled.
export async function showPull(node, { id, status }) {
  const pull = status === "starting" && allows("operator") ? await request(`/api/instances/${encodeURIComponent(id)}/image-pull`).catch(() => null) : null;
  if (!pull?.pulling) return node.replaceChildren();
  const { layers, layersComplete, bytesDone, bytesTotal, percent } = pull;
  const bar = node.querySelector("progress") ?? el("progress", { max: 100, "aria-label": "Image pull" });
  if (percent === null) bar.removeAttribute("value");
  else bar.value = percent;
  const text = [layers ? `${layersComplete} of ${layers} layers` : "", bytesTotal ? `${size(bytesDone)} of ${size(bytesTotal)}` : ""].filter(Boolean).join(", ");
  const note = el("span", { className: "note" }, `Pulling the image${text ? `: ${text}` : ""}`);
  if (bar.isConnected) node.lastChild.replaceWith(note);
  else node.replaceChildren(bar, note);
}
