// Events in plain words. Pure.

import { TONES, words } from "./format.js";

// Events that change no status: a word and a colour of their own.
const NAMED = {
  "instance.ending_soon": ["ends soon", "warn"],
  "instance.ending_cancelled": ["end cancelled", "good"],
  "instance.lease_changed": ["lease changed", "idle"],
  "instance.data_expiring": ["data expires soon", "warn"],
  "budget.threshold": ["budget", "warn"],
  "budget.exhausted": ["budget spent", "bad"],
  "account.low_balance": ["low balance", "bad"],
};

export const wordOf = ({ event, status }) => NAMED[event]?.[0] ?? words(status);
export const toneOf = ({ event, status }) => NAMED[event]?.[1] ?? TONES[status] ?? "busy";

// What the event says; *time* returns a point in time in words.
export function textOf({ event, error, reason, data }, time) {
  if (error) return `${error.code}: ${error.message}`;
  if (event === "instance.ending_soon" && data.endsAt) return `It ends at ${time(data.endsAt)}: ${data.reason ?? reason}`;
  if (event === "instance.data_expiring" && data.dataKeptUntil) return `The provider deletes its data after ${time(data.dataKeptUntil)}: start it before, or save the data`;
  return reason;
}
