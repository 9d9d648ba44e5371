// The costs page: what is billed now and where that leads, what is billed without use, the last 30 days, and budgets. Each
// section reads by itself, so that one that fails says so and leaves the others alone.
//
// Rule: text from the API is set with `textContent`, never as markup.

import * as frame from "../shared/frame.js";
import { guarded } from "../shared/parts.js";
import { live } from "../shared/stream.js";
import * as budgets from "./budgets.js";
import * as forecast from "./forecast.js";
import * as past from "./past.js";

const GATHER_MS = 5000; // events within this time are handled by one read: thirty days take the service some work
const EVERY_MS = 30000; // costs grow without events

frame.begin();
past.begin(() => guarded("past", past.show));
live({ load: read, onEvent: () => (gathering ??= setTimeout(refresh, GATHER_MS)) });
setInterval(() => !document.hidden && refresh(), EVERY_MS);

let gathering = null;
function refresh() {
  clearTimeout(gathering);
  gathering = null;
  read();
}

async function read() {
  await Promise.all([guarded("forecast", forecast.show), guarded("past", past.show), guarded("budgets", budgets.show)]);
}
