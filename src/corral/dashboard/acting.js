// Start, stop, restart and delete: asked for once, after the person said yes.

import { $, ask, notice, perform, say } from "./tools.js";

const WORDS = {
  start: ["Start this instance?", "It is billed again from the moment it runs. Its disk is as it was.", "Start", "is being started"],
  restart: ["Restart this instance?", "What runs on it ends and begins anew. Its disk stays.", "Restart", "is being restarted"],
  stop: ["Stop this instance?", "What runs on it ends; its disk stays, and it can be started again when the provider has a GPU free there.", "Stop", "is being stopped"],
  delete: ["Delete this instance?", "Its disk goes with it. It is shown as deleting until the provider confirms that it is gone.", "Delete", "is being deleted"],
};

let asked = null; // {verb, id, name, key}: the key makes it happen once, however often it must be sent

export function begin({ look }) {
  $("confirm-form").addEventListener("submit", (event) => {
    event.preventDefault();
    perform("confirm", async () => {
      const { verb, id, name, key } = asked;
      const path = `/api/instances/${encodeURIComponent(id)}`;
      if (verb === "delete") await ask(path, { method: "DELETE", key });
      else await ask(`${path}/${verb}`, { method: "POST", body: {}, key });
      notice(`${name} ${WORDS[verb][3]}.`);
      look(id);
      $("confirm").addEventListener("close", () => $("instances").focus(), { once: true }); // its button goes away
    });
  });
}

export function confirm(verb, data) {
  const [title, note, go] = WORDS[verb];
  asked = { verb, id: data.id, name: data.name, key: crypto.randomUUID() };
  $("confirm-error").hidden = true;
  say($("confirm-title"), title);
  say($("confirm-what"), `${data.name}, ${data.gpuNum} × ${data.productName} in ${data.region}`);
  say($("confirm-note"), note);
  say($("confirm-go"), go);
  $("confirm-go").className = verb === "delete" ? "danger" : "primary";
  $("confirm").showModal();
}
