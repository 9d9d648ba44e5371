// What is known of the instances: the list page by page, then only those that an event named.

import { request } from "../shared/api.js";
import { isMoving } from "../shared/format.js";

const FIRST = 50; // rows of the first page: small, so that a slow connection shows something soon
const PAGE = 500; // rows of every later one, which is the API's largest
const BATCH = 100; // the most ids that one request may name
const GATHER_MS = 200; // events within this time are handled by one read
const LATER_MS = 5000; // delay before a failed read is repeated
const MOVING_MS = 10000; // how often those in motion are read: what they wait for changes without an event
const QUIET_MS = 30000; // how often those that are idle are read: that they are used again has no event before a notice

export const known = new Map(); // instance id -> its row, as the API lists it
export const progress = { loaded: false, total: null }; // whether every page was read, and how many rows there are

const watchers = []; // called with the ids of changed rows
let status = "active"; // of the rows that are read: "active", or "" for all
let run = 0; // the number of the latest load: an earlier one that is still reading pages stops
let found = new Set(); // ids that were read since the latest load began

export function watch(changed) {
  watchers.push(changed);
  setInterval(() => !document.hidden && lookAt(isMoving), MOVING_MS);
  setInterval(() => !document.hidden && lookAt(({ quiet }) => quiet), QUIET_MS);
}

// Also reads terminated instances from now on.
export function readAll() {
  if (status === "") return;
  status = "";
  if (run > 0) load().catch(again); // before the first load, it reads them too
}

// Resolves with the first page; the others follow in the background.
export async function load() {
  const mine = ++run;
  progress.loaded = false;
  const page = await inTurn(() => {
    found = new Set();
    return readPage(FIRST, null);
  });
  inTurn(() => readRest(mine, page));
}

async function readPage(limit, after) {
  const page = await request(`/api/instances?fields=summary&limit=${limit}${status ? `&status=${status}` : ""}${after ? `&after=${after}` : ""}`);
  progress.total = page.total;
  upsert(page.instances);
  return page;
}

async function readRest(mine, { instances, limit }) {
  if (mine !== run) return;
  if (instances.length < limit) return finish();
  try {
    const page = await readPage(PAGE, instances.at(-1).id);
    inTurn(() => readRest(mine, page)); // in turn: changed rows may be read between two pages
  } catch {
    if (mine === run) again();
  }
}

function again() {
  setTimeout(() => load().catch(again), LATER_MS);
}

function finish() {
  progress.loaded = true;
  const gone = [...known.values()].filter(({ id, status: last }) => !found.has(id) && last !== "terminated").map(({ id }) => id);
  for (const id of gone) known.delete(id);
  report(gone);
}

const MATCHING_MS = 300; // after the last key press
let matching = null;

// Reads what matches *query* first, unless every page was read: a large fleet takes a while.
export function readMatching(query) {
  clearTimeout(matching);
  if (query && !progress.loaded) matching = setTimeout(() => !progress.loaded && inTurn(() => readFiltered(query)), MATCHING_MS);
}

async function readFiltered(query) {
  const { instances } = await request(`/api/instances?fields=summary&limit=${PAGE}${status ? `&status=${status}` : ""}&${query}`);
  upsert(instances);
}

function upsert(rows) {
  for (const data of rows) {
    known.set(data.id, data);
    found.add(data.id);
  }
  report(rows.map(({ id }) => id));
}

function report(ids) {
  for (const changed of watchers) changed(ids);
}

let reading = Promise.resolve();
function inTurn(work) {
  return (reading = reading.then(work, work)); // one read at a time: an older answer never replaces a newer one
}

const named = new Set(); // ids to read again
let gathering = null;

// Reads the instance with *id* again, soon.
export function look(id, delay = GATHER_MS) {
  named.add(id);
  gathering ??= setTimeout(() => inTurn(readNamed), delay);
}

function lookAt(wanted) {
  for (const data of known.values()) if (wanted(data) && named.size < BATCH) look(data.id);
}

async function readNamed() {
  const ids = [...named].slice(0, BATCH);
  for (const id of ids) named.delete(id);
  gathering = null;
  try {
    const { instances } = await request(`/api/instances?fields=summary&ids=${ids.join(",")}`);
    upsert(instances);
  } catch {
    for (const id of ids) look(id, LATER_MS);
  }
  if (named.size) look(named.values().next().value);
}
