// The fleet page: reads the list page by page, then follows the event stream and reads only what changed.
//
// Rule: text from the API is set with `textContent`, never as markup.

import * as createForm from "../create/form.js";
import * as extend from "../lease/extend.js";
import { el } from "../shared/dom.js";
import * as frame from "../shared/frame.js";
import { live } from "../shared/stream.js";
import * as cards from "./cards.js";
import * as feed from "./feed.js";
import * as filters from "./filters.js";
import * as instances from "./instances.js";
import * as menu from "./menu.js";
import * as selection from "./selection.js";
import * as table from "./table.js";
import * as tiles from "./tiles.js";

frame.begin(el("button", { id: "new", className: "primary", type: "button", data: { needs: "operator" } }, "New instance"));
createForm.begin(instances);
extend.begin();
menu.begin();
selection.begin();
cards.begin();
table.begin();
instances.watch(table.update);
filters.begin(table.refilter);
live({
  load: async () => {
    await instances.load();
    feed.recall();
    tiles.begin();
  },
  onEvent: (event) => {
    feed.add(event);
    if (event.instanceId) instances.look(event.instanceId); // a budget's event is about no instance
  },
});
