// Start, stop, restart and delete, each after a confirmation.

import { newKey, request } from "./api.js";
import { $, notice, perform, setText } from "./dom.js";

const WORDS = {
  start: ["Start this instance?", "It is billed again from the moment it runs. Its disk is unchanged.", "Start", "is being started"],
  restart: ["Restart this instance?", "Running programs end and start again. Its disk is kept.", "Restart", "is being restarted"],
  stop: ["Stop this instance?", "Running programs end. Its disk is kept, and it can be started again when its host has a free GPU.", "Stop", "is being stopped"],
  delete: ["Delete this instance?", "Its disk is deleted too. It is shown as deleting, and may be billed, until the provider confirms.", "Delete", "is being deleted"],
};

let pending = null; // {verb, id, name, key}: the idempotency key makes a repeated request harmless

export function begin({ look }) {
  $("confirm-form").addEventListener("submit", (event) => {
    event.preventDefault();
    perform("confirm", async () => {
      const { verb, id, name, key } = pending;
      const path = `/api/instances/${encodeURIComponent(id)}`;
      if (verb === "delete") await request(path, { method: "DELETE", key });
      else await request(`${path}/${verb}`, { method: "POST", body: {}, key });
      notice(`${name} ${WORDS[verb][3]}.`);
      look(id);
      $("confirm").addEventListener("close", () => $("instances").focus(), { once: true }); // its button is removed
    });
  });
}

export function confirm(verb, data) {
  const [title, note, go] = WORDS[verb];
  pending = { verb, id: data.id, name: data.name, key: newKey() };
  $("confirm-error").hidden = true;
  setText($("confirm-title"), title);
  setText($("confirm-what"), `${data.name}, ${data.gpuNum} × ${data.productName} in ${data.region}`);
  setText($("confirm-note"), note);
  setText($("confirm-go"), go);
  $("confirm-go").className = verb === "delete" ? "danger" : "primary";
  $("confirm").showModal();
}
