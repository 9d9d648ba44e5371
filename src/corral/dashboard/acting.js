// What is done to an instance: asked for once, after the person said yes.

import { $, ask, notice, perform, say } from "./tools.js";

const WORDS = {
  delete: ["Delete this instance?", "Its disk goes with it. It is shown as deleting until the provider confirms that it is gone.", "Delete", "is being deleted"],
};

let asked = null; // {verb, id, name, key}: the key makes it happen once, however often it must be sent

export function begin({ look }) {
  $("confirm-form").addEventListener("submit", (event) => {
    event.preventDefault();
    perform("confirm", async () => {
      const { verb, id, name, key } = asked;
      const path = `/api/instances/${encodeURIComponent(id)}`;
      await ask(path, { method: "DELETE", key });
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
  $("confirm").showModal();
}
