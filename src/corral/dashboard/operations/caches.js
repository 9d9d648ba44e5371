// The caches of the process that answers, each with a button that clears it everywhere.

import { request } from "../shared/api.js";
import { $, el, notice, setText } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { bodyOf, render, table } from "../shared/parts.js";
import { asking } from "./ask.js";

const lookups = ({ hits, misses }) => hits + misses;
const percent = (share) => `${Math.round(100 * share)} %`;

export async function show(changed) {
  const { caches } = await request("/api/cache/stats");
  const all = Object.values(caches);
  const [hits, total, values] = [(each) => each.hits, lookups, (each) => each.size].map((of) => all.reduce((sum, each) => sum + of(each), 0));
  setText($("caches-summary"), `${plural(values, "value")} in ${plural(all.length, "cache")}, ${total ? `${percent(hits / total)} of ${plural(total, "lookup")} answered at once` : "not used yet"}`);
  render(bodyOf("caches"), caches, () => [table("Caches of this process", ["Cache", "Values", "Hits", "Stored", "Expired", "Action"],
    Object.entries(caches).map(([name, cache]) => [
      name, String(cache.size), lookups(cache) ? `${percent(cache.hitRatio)} of ${plural(lookups(cache), "lookup")}` : "not used", String(cache.sets), String(cache.evictions), clear(name, changed)]))]);
}

function clear(name, changed) {
  const question = { title: "Clear this cache?", what: name, note: "In every process. The next lookups are slower; nothing is lost." };
  return asking({ text: "Clear", name: `Clear the cache ${name}`, needs: "admin" }, question, async () => {
    const { removed } = await request("/api/cache/clear", { method: "POST", body: { cacheName: name } });
    notice(`${plural(removed, "value")} of ${name} removed.`);
    changed();
  });
}
