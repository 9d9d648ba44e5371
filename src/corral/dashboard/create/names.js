// Names: one for each instance that is made, a free one for a copy, and a warning when a live instance has one of them.

import { request } from "../shared/api.js";
import { el } from "../shared/dom.js";
import { words } from "../shared/format.js";
import { instanceLink } from "../shared/parts.js";

export const namesOf = (name, count) => (count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index + 1}`));

// The name of a copy: of what failed or is gone the same, else the next number.
export function copyName({ name, status }) {
  if (status === "failed" || status === "terminated") return name;
  const [, base, number] = name.match(/^(.*?)(?:-(\d{1,6}))?$/);
  return `${base}-${Number(number ?? 1) + 1}`;
}

// What is to be said of names that live instances have; an empty list if there are none.
export async function takenNames(names) {
  const found = await Promise.all(names.map((name) => request(`/api/instances?fields=summary&limit=5&name=${encodeURIComponent(name)}`)));
  const live = found.flatMap(({ instances }) => instances).filter(({ status }) => status !== "terminated");
  if (!live.length) return [];
  const { id, name, status } = live[0];
  return [`The name is taken: ${name} `, instanceLink(id, `is ${words(status)}`), live.length > 1 ? ` (and ${live.length - 1} more)` : "",
    ". Another of the same name can be distinguished by its id only."].map((part) => (typeof part === "string" ? part : el("span", {}, part)));
}
