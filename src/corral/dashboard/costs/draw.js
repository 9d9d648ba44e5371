// Elements of SVG pictures.

import { $ } from "../shared/dom.js";

export function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS($("chart").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
