// The filter language of the fleet page: `owner:olga status:failed region:CN older:2d trainer`. Pure functions.
//
// Terms are separated by spaces and must all match; commas give alternatives; a leading `-` negates; quotes keep spaces.
// Words without a key match the name. `label:team=vision` needs the label with this value, `label:team` with any.

import { ACTIVE } from "../shared/format.js";

const STATUSES = [...ACTIVE, "terminated"];
const UNITS = { m: 60, h: 3600, d: 86400, w: 604800 };
const contains = (text, part) => (text ?? "").toLowerCase().includes(part);
const begins = (text, part) => (text ?? "").toLowerCase().startsWith(part);
const equals = (text, part) => (text ?? "").toLowerCase() === part;

const KEYS = {
  name: { test: (data, value) => contains(data.name, value) },
  owner: { test: (data, value) => equals(data.createdBy, value) },
  status: { read: readStatus, test: (data, value) => data.status === value },
  region: { test: (data, value) => begins(data.region, value) },
  gpu: { test: (data, value) => contains(`${data.gpuNum}x ${data.productName}`, value) },
  template: { test: (data, value) => equals(data.templateId, value) },
  label: { test: ({ labels }, wanted) => Object.entries(labels).some(([key, value]) => equals(`${key}=${value}`, wanted) || equals(key, wanted)) },
  billing: { test: (data, value) => equals(data.billingMode, value) },
  id: { test: (data, value) => equals(data.id, value) || equals(data.novitaInstanceId, value) },
  older: { read: readAge, test: (data, seconds, now) => now - Date.parse(data.createdAt) > seconds * 1000 },
  newer: { read: readAge, test: (data, seconds, now) => now - Date.parse(data.createdAt) <= seconds * 1000 },
};

// Returns {terms, problems}: the terms of *text*, and a sentence for each that has no meaning.
export function parse(text) {
  const [terms, problems] = [[], []];
  for (const [, minus, key, quoted, plain] of text.matchAll(/(-?)(?:([A-Za-z]+):)?(?:"([^"]*)"?|(\S+))?(?:\s+|$)/g)) {
    const value = quoted ?? plain ?? "";
    if (!value) continue; // still being typed
    const name = (key ?? "name").toLowerCase();
    try {
      if (!Object.hasOwn(KEYS, name)) throw new Error(`"${key}:" is not a filter. Filters are ${Object.keys(KEYS).join(", ")}.`);
      const values = (quoted === undefined ? value.split(",").filter(Boolean) : [value]).map((each) => (KEYS[name].read ?? readText)(each, name));
      if (values.length) terms.push({ name, values, text: value, negated: minus === "-" });
    } catch (error) {
      problems.push(error.message);
    }
  }
  return { terms, problems };
}

// Whether *data* passes all *terms*; *now* is in milliseconds.
export function matches(terms, data, now) {
  return terms.every(({ name, values, negated }) => values.some((value) => KEYS[name].test(data, value, now)) !== negated);
}

// The part of *terms* that the API can apply, as a query; empty if there is none. Its `label` distinguishes upper case.
export function asQuery(terms) {
  const found = new URLSearchParams();
  for (const { name, values, text, negated } of terms) {
    if (negated || values.length > 1) continue;
    if (name === "label") found.append("label", text.replace("=", ":"));
    if (name === "name") found.set("q", text);
  }
  return found.toString();
}

// *text* with the term `key:value`, in place of any other for that key; without a value, with none.
export function withTerm(text, key, value) {
  const rest = text.replace(new RegExp(`(^|\\s)${key}:\\S*`, "g"), " ").replace(/\s+/g, " ").trim();
  return value ? `${rest} ${key}:${value}`.trim() : rest;
}

function readText(value) {
  return value.toLowerCase();
}

function readStatus(value) {
  const status = value.toLowerCase() === "stopped" ? "exited" : value.toLowerCase().replaceAll("-", "_");
  if (!STATUSES.includes(status)) throw new Error(`"${value}" is not a status. Statuses are ${STATUSES.join(", ")}.`);
  return status;
}

function readAge(value, key) {
  const found = /^(\d+)([mhdw])$/.exec(value);
  if (!found) throw new Error(`"${key}:${value}" is not an age. Write a number and m, h, d or w, such as ${key}:2d.`);
  return Number(found[1]) * UNITS[found[2]];
}
