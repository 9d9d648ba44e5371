// The fleet page: reads the API once, then follows the event stream and reads only what changed.
//
// Rule: text from the API is set with `textContent`, never as markup.

import * as createForm from "../create/form.js";
import { el } from "../shared/dom.js";
import * as frame from "../shared/frame.js";
import { live } from "../shared/stream.js";
import * as feed from "./feed.js";
import * as fleet from "./fleet.js";
import * as tiles from "./tiles.js";

frame.begin(el("button", { id: "new", className: "primary", type: "button" }, "New instance"));
for (const closer of document.querySelectorAll("[data-close]")) {
  closer.addEventListener("click", () => closer.closest("dialog").close());
}
createForm.begin(fleet);
fleet.begin();
tiles.begin();
live({
  load: async () => {
    await fleet.inTurn(fleet.loadAll);
    await feed.recall();
  },
  onEvent: (event) => {
    feed.add(event);
    fleet.look(event.instanceId);
  },
});
