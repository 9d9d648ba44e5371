// What costs money or makes no progress and needs a person: failed and still billed, stuck, orphans, a paused queue.

import { confirm } from "../shared/actions.js";
import { request } from "../shared/api.js";
import { el, notice } from "../shared/dom.js";
import { money, plural, words } from "../shared/format.js";
import { badge, bodyOf, instanceLink, problemText, render, table } from "../shared/parts.js";
import { age } from "../shared/time.js";
import { asking } from "./ask.js";

const FAILED = 500; // the API's largest page

export async function show(changed) {
  const [failed, { orphans, stuck }, stats, health] = await Promise.all([
    request(`/api/instances?status=failed&fields=summary&limit=${FAILED}`), request("/api/orphans"), request("/api/jobs/stats"), request("/health", { also: [503] })]);
  const billed = failed.instances.filter((each) => each.billed);
  const down = Object.keys(health.services).filter((name) => health.services[name] !== "up");
  render(bodyOf("attention"), [billed, down, stats.paused, orphans, stuck], () => parts({ billed, down, stats, orphans, stuck }, changed));
}

function parts({ billed, down, stats, orphans, stuck }, changed) {
  const found = [
    ...(down.length ? [el("p", { className: "problem" }, `Down: ${down.join(", ")}.`)] : []),
    ...(stats.paused ? [el("p", { className: "problem" }, `Jobs are paused by ${stats.pausedBy} since `, age(stats.pausedAt, ""), ": nothing is created, stopped or deleted. ", el("a", { href: "#jobs" }, "Resume"))] : []),
    ...group("Failed and still billed", billed.length, () => failedTable(billed, changed)),
    ...group("Stuck", stuck.length, () => stuckTable(stuck)),
    ...group("Orphans", orphans.length, () => orphanTable(orphans, changed)),
  ];
  return found.length ? found : [el("p", { className: "note" }, "Nothing: no failed instance is billed, none is stuck, there is no orphan, and every part of the service is up.")];
}

function group(title, count, content) {
  return count ? [el("h3", {}, `${title} (${count})`), ...content()] : [];
}

function failedTable(billed, changed) {
  const total = billed.reduce((sum, { price }) => sum + (price ?? 0), 0);
  const deleteAll = el("button", { type: "button", className: "danger-text", data: { needs: "operator" } }, `Delete all ${billed.length}`);
  deleteAll.addEventListener("click", () => confirm("delete", billed, changed));
  return [
    el("p", { className: "line" }, `Together ${money(total)}/h, until stopped or deleted.`, billed.length > 1 ? deleteAll : null),
    table("Failed and still billed", ["Instance", "Per hour", "Age", "Why", "Action"], billed.map((each) => {
      const remove = el("button", { type: "button", className: "danger-text", data: { needs: "operator" }, "aria-label": `Delete ${each.name}` }, "Delete");
      remove.addEventListener("click", () => confirm("delete", [each], changed));
      return [instanceLink(each.id, each.name), money(each.price), age(each.createdAt, ""), el("span", {}, ...(each.error ? problemText(each.error) : ["–"])), remove];
    })),
  ];
}

function stuckTable(stuck) {
  return [table("Stuck", ["Instance", "Status", "Since", "Why", "What Corral does"], stuck.map((each) => [
    instanceLink(each.instanceId), badge(words(each.status), "warn"), age(each.since), each.reason, each.nextStep]))];
}

function orphanTable(orphans, changed) {
  return [
    el("p", { className: "note" }, "Machines at the provider under this installation's name that no record accounts for."),
    table("Orphans", ["Machine", "Status", "Region", "Per hour", "Found", "Why", "Action"], orphans.map((each) => [
      el("span", {}, each.name, el("br"), el("code", {}, each.novitaInstanceId)), badge(words(each.status), "warn"), each.region,
      money(each.price), age(each.firstSeenAt), each.reason, el("span", { className: "verbs" }, adopt(each, changed), remove(each, changed))])),
  ];
}

function adopt(orphan, changed) {
  const question = { title: "Adopt this machine?", what: `${orphan.name}, ${orphan.novitaInstanceId}`, note: "Corral manages it from then on, as an instance of its own. The machine is not changed." };
  return asking({ text: "Adopt", name: `Adopt ${orphan.novitaInstanceId}`, needs: "operator" }, question, async () => {
    const { id, name } = await take(orphan);
    notice(`${name} is adopted as ${id}.`);
    changed();
  });
}

// The API deletes only what has a record, so that every delete is repeated until the provider confirms it.
function remove(orphan, changed) {
  const question = { title: "Delete this machine?", what: `${orphan.name}, ${orphan.novitaInstanceId}`, note: "It is adopted first, so that the delete is repeated until the provider confirms it. Its disk is deleted too.", isDanger: true };
  return asking({ text: "Delete", name: `Delete ${orphan.novitaInstanceId}`, needs: "operator" }, question, async () => {
    const { id, name } = await take(orphan);
    await request(`/api/instances/${id}`, { method: "DELETE" });
    notice(`${name} is being deleted.`);
    changed();
  });
}

function take({ novitaInstanceId }) {
  return request(`/api/instances/${encodeURIComponent(novitaInstanceId)}/adopt`, { method: "POST", body: {} });
}
