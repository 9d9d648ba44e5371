// The operations page: what needs attention, and the machinery behind the fleet. Each section reads by itself, so that one
// that the role may not read, or that fails, says so and leaves the others alone.
//
// Rule: text from the API is set with `textContent`, never as markup.

import * as frame from "../shared/frame.js";
import { guarded, keepFocus } from "../shared/parts.js";
import { live } from "../shared/stream.js";
import * as ask from "./ask.js";
import * as attention from "./attention.js";
import * as audit from "./audit.js";
import * as caches from "./caches.js";
import * as deliveries from "./deliveries.js";
import * as jobs from "./jobs.js";
import * as keys from "./keys.js";
import * as numbers from "./numbers.js";
import * as settings from "./settings.js";

const GATHER_MS = 1000; // events within this time are handled by one read
const EVERY_MS = 10000; // how often what changes without an event is read
const LIVE = { attention, numbers, deliveries, jobs, caches }; // change without an action on this page
const ALL = { ...LIVE, audit, keys, settings };

frame.begin();
ask.begin();
keepFocus();
deliveries.begin(() => read({ deliveries }));
audit.begin(() => read({ audit }));
keys.begin(() => read({ keys, audit }));
live({ load: () => read(ALL), onEvent: () => (gathering ??= setTimeout(refresh, GATHER_MS)) });
setInterval(() => !document.hidden && refresh(), EVERY_MS);

let gathering = null;
function refresh() {
  clearTimeout(gathering);
  gathering = null;
  read(LIVE);
}

// Reads every section of *sections* at once.
async function read(sections) {
  await Promise.all(Object.entries(sections).map(([id, { show }]) => guarded(id, () => show(changed))));
}

// After an action, which may concern other sections and has a line in the audit log.
function changed() {
  return read({ ...LIVE, audit });
}
