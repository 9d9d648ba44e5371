// The templates as a list to search, each with its image and ports; the chosen one also with its tools.

import { request } from "../shared/api.js";
import { el, setText } from "../shared/dom.js";
import { group, setHint } from "./fields.js";

const find = el("input", { type: "search", placeholder: "Find by name, image or id", autocomplete: "off", "aria-label": "Find a template" });
const list = el("div", { className: "choices" });
const none = el("p", { className: "note", role: "status", hidden: true });
let templates = [];

export function templateField() {
  find.addEventListener("input", (event) => {
    event.stopPropagation(); // searching changes nothing of the request
    filter();
  });
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // and does not send it
    list.querySelector("label:not([hidden]) input")?.click();
  });
  return group("templateId", "Template", "", find, list, none);
}

export async function loadTemplates(chosen) {
  ({ templates } = await request("/api/templates"));
  if (chosen && !templates.some(({ id }) => id === chosen)) templates.unshift({ id: chosen, name: `Template ${chosen}`, image: "", channel: "by its id" });
  list.replaceChildren(...templates.map(choice), choice({ id: "", name: "No template", image: "", channel: "the image alone, which is given below" }));
  choose(chosen ?? templates.find(({ channel }) => channel === "official")?.id ?? templates[0]?.id);
  find.value = "";
  filter();
}

function choice({ id, name, image, channel, ports = [] }) {
  const label = el("label", { data: { text: `${id} ${name} ${image} ${channel}`.toLowerCase() } }, el("input", { type: "radio", name: "templateId", value: id }),
    el("span", {}, el("b", {}, name), " ", el("small", {}, id ? `${id}, ${channel}` : channel), el("code", {}, image), el("small", {}, portsText(ports))));
  return label;
}

function choose(id) {
  const radio = [...list.querySelectorAll("input")].find(({ value }) => value === id);
  if (!radio) return;
  radio.checked = true;
  radio.closest("label").scrollIntoView({ block: "nearest" });
}

// What matches the search; an id that is not listed, as of the provider's community, can be used too.
function filter() {
  const wanted = find.value.trim();
  const words = wanted.toLowerCase().split(/\s+/);
  list.querySelector("[data-typed]")?.remove();
  for (const label of list.children) label.hidden = !words.every((word) => label.dataset.text.includes(word));
  const shown = [...list.children].filter(({ hidden }) => !hidden).length;
  if (!shown && /^[\w-]+$/.test(wanted)) {
    const typed = choice({ id: wanted, name: `Use the id ${wanted}`, image: "", channel: "not in the list" });
    typed.dataset.typed = "";
    list.append(typed);
  }
  none.hidden = shown > 0;
  setText(none, shown ? "" : "No template in the list matches.");
}

const portsText = (ports) => ports.map(({ port, type }) => `${port} ${type}`).join(", ");

export async function showPorts(form, id) {
  const template = await request(`/api/templates/${encodeURIComponent(id)}`);
  const tools = template.tools.map(({ name, port }) => `${name} on ${port}`);
  setHint(form, "templateId", [el("b", {}, template.name), ` runs `, el("code", {}, template.image), `. Ports: ${portsText(template.ports) || "none"}${tools.length ? `; ${tools.join(", ")}` : ""}.`]);
}
