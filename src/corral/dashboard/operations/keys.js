// API keys: created with a secret that is shown once, listed with their last use, and revoked after a confirmation.

import { request } from "../shared/api.js";
import { $, el, notice } from "../shared/dom.js";
import { badge, bodyOf, copyable, render, table } from "../shared/parts.js";
import { age } from "../shared/time.js";
import { asking } from "./ask.js";

let reload = () => {};

export function begin(onChange) {
  reload = onChange;
  $("new-key").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { name, role } = event.target.elements;
    $("new-key-go").disabled = true;
    try {
      const made = await request("/api/keys", { method: "POST", body: { name: name.value.trim(), role: role.value } });
      $("new-key-problem").hidden = true;
      $("new-key-secret").replaceChildren(el("p", {}, el("b", {}, `The ${made.role} key of ${made.name}: `), "shown this once. Store it now; Corral keeps only its hash."), copyable(made.key, "the new key"));
      $("new-key-secret").hidden = false;
      name.value = "";
      reload();
    } catch (error) {
      $("new-key-problem").hidden = false;
      $("new-key-problem").textContent = error.message;
    }
    $("new-key-go").disabled = false;
  });
}

export async function show() {
  const { keys } = await request("/api/keys");
  $("new-key").hidden = false;
  render(bodyOf("keys"), keys, () => [keys.length ? keyTable(keys) : el("p", { className: "note" }, "None: only programs on this machine are admitted.")]);
}

function keyTable(keys) {
  const inOrder = [...keys].sort((a, b) => (a.revokedAt !== null) - (b.revokedAt !== null));
  return table("API keys", ["Name", "Role", "Key", "Created", "Last used", "Action"], inOrder.map((key) => [
    key.name, key.role, el("code", {}, `${key.prefix}…`), age(key.createdAt), key.lastUsedAt ? age(key.lastUsedAt) : "never",
    key.revokedAt ? el("span", {}, badge("revoked", "idle"), " ", age(key.revokedAt)) : revoke(key)]));
}

function revoke(key) {
  const question = { title: "Revoke this key?", what: `${key.name}, ${key.role}, ${key.prefix}…`, note: "Every process refuses it at once, for good, also when it is the one that you are signed in with.", isDanger: true };
  return asking({ text: "Revoke", name: `Revoke ${key.name}`, needs: "admin" }, question, async () => {
    await request(`/api/keys/${encodeURIComponent(key.id)}`, { method: "DELETE" });
    notice(`The key of ${key.name} is revoked.`);
    reload();
  });
}
