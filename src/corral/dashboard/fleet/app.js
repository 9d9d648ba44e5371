// The dashboard: reads the API once, then follows the event stream and reads only what changed.
//
// Rule: text from the API is set with `textContent`, never as markup.

import * as actions from "../shared/actions.js";
import * as fleet from "./fleet.js";
import * as auth from "../shared/auth.js";
import * as createForm from "../create/form.js";
import * as stream from "./stream.js";
import * as tiles from "./tiles.js";

for (const closer of document.querySelectorAll("[data-close]")) {
  closer.addEventListener("click", () => closer.closest("dialog").close());
}
auth.begin();
actions.begin(fleet);
createForm.begin(fleet);
fleet.begin(stream);
stream.begin();
tiles.begin(stream);
