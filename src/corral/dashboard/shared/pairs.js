// Rows of two controls that can be added and removed: variables, secrets, labels, volumes.

import { el, notice } from "./dom.js";

const inputs = (type) => (noun) => [
  el("input", { placeholder: "name", "aria-label": `Name of the ${noun}`, autocomplete: "off", spellcheck: false }),
  type ? el("input", { type, placeholder: "value", "aria-label": `Value of the ${noun}`, autocomplete: type === "password" ? "new-password" : "off" })
    : el("textarea", { rows: 1, placeholder: "value", "aria-label": `Value of the ${noun}`, spellcheck: false }),
];
export const TEXT = inputs("text"); // of one line
export const LINES = inputs(""); // of several
export const MASKED = inputs("password");

// An editor: its `nodes`, `read`, which returns the pairs, `fill` with pairs, and `problem`, a text or null. *controls*
// returns the two controls of a new row. Lines `NAME=value` that are pasted become a row each.
export function pairs(noun, controls) {
  const list = el("div", { className: "rows" });
  const more = el("button", { type: "button" }, `Add a ${noun}`);
  const changed = () => list.dispatchEvent(new Event("input", { bubbles: true }));
  const read = () => [...list.children].map(({ children: [name, value] }) => [name.value.trim(), value.value]).filter(([name, value]) => name || value);

  function add(pair) {
    const made = controls(noun);
    const remove = el("button", { type: "button", className: "quiet", "aria-label": `Remove this ${noun}` }, "✕");
    const row = el("div", {}, ...made, remove);
    remove.addEventListener("click", () => {
      row.remove();
      more.focus();
      changed();
    });
    list.append(row);
    if (pair) [made[0].value, made[1].value] = pair;
    return made[0];
  }

  more.addEventListener("click", () => add().focus());
  list.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text").trim();
    const lines = [...text.matchAll(/^\s*(?:export\s+)?([^\s#=]+)=(.*?)\r?$/gm)];
    const isName = event.target === event.target.parentElement.firstElementChild;
    if (isName && lines.length) {
      event.preventDefault();
      if (!event.target.parentElement.children[1].value) event.target.parentElement.remove();
      lines.forEach(([, name, value]) => add([name, value.replace(/^(["'])(.*)\1$/, "$2")]));
      changed();
    } else if (event.target.type === "password" && text.includes("\n")) {
      event.preventDefault(); // the browser would join the lines
      notice("A secret of several lines cannot be entered here; give it to corral create as a file.");
    }
  });
  return {
    nodes: [list, more],
    read,
    fill: (rows) => {
      list.replaceChildren();
      rows.forEach((pair) => add(pair));
    },
    problem: () => {
      const names = read().map(([name]) => name);
      const twice = names.find((name, index) => names.indexOf(name) < index);
      const empty = controls === MASKED && read().find(([, value]) => !value)?.[0];
      return twice ? `has ${twice} twice` : empty ? `needs the value of ${empty}, which is kept nowhere` : null;
    },
  };
}
