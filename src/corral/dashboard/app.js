// The dashboard: reads the API once, then follows the event stream and reads again only what changed.
//
// Rule: what the API says is only ever text (`textContent`), never markup.

import * as acting from "./acting.js";
import * as fleet from "./fleet.js";
import * as key from "./key.js";
import * as ordering from "./ordering.js";
import * as stream from "./stream.js";
import * as tiles from "./tiles.js";

for (const closer of document.querySelectorAll("[data-close]")) {
  closer.addEventListener("click", () => closer.closest("dialog").close());
}
key.begin();
acting.begin(fleet);
ordering.begin(fleet);
fleet.begin(stream);
stream.begin();
tiles.begin(stream);
