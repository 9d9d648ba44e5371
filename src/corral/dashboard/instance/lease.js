// The lease: when the instance ends and why, what was set, and the form that changes it.

import { showErrors } from "../create/fields.js";
import * as extend from "../lease/extend.js";
import { fillLease, leaseFields, leasePatch } from "../lease/form.js";
import { endText, endingOf, partsOf } from "../lease/text.js";
import { request } from "../shared/api.js";
import { $, notice, setText } from "../shared/dom.js";
import { facts, problemText, render } from "../shared/parts.js";
import { local, moment, ticking } from "../shared/time.js";

const GONE = ["deleting", "terminated"];
let [path, data, onDone] = ["", null, () => {}];

export function begin(instancePath, done) {
  [path, onDone] = [`${instancePath}/lease`, done];
  extend.begin();
  $("lease-fields").append(...leaseFields("none"));
  $("lease-extend").addEventListener("click", () => extend.open(data, endingOf(data), onDone));
  $("lease-edit").addEventListener("click", () => {
    fillLease($("lease-form"), data.lease);
    showErrors($("lease-form"), null);
    show(true);
    $("lease-fields").querySelector("input").focus();
  });
  $("lease-cancel").addEventListener("click", () => show(false));
  $("lease-form").addEventListener("submit", save);
}

export function showLease(next) {
  data = next;
  const ending = endingOf(data);
  $("ending").hidden = $("lease-notice").hidden = !ending.notifiedAt;
  if (ending.notifiedAt) setText($("lease-notice"), noticeText(data.lease));
  ticking($("lease-end"), (now) => endText(ending, now).replace("ends", "Ends") || withoutEnd(data));
  $("lease-end").dataset.tone = ending.notifiedAt ? "warn" : "";
  render($("lease"), data.lease, () => (data.lease ? [facts(factsOf(data.lease))] : []));
  $("lease-extend").hidden = !ending.endsAt;
  $("lease-edit").hidden = GONE.includes(data.status) || !$("lease-form").hidden;
  setText($("lease-edit"), data.lease ? "Change the lease" : "Set a lease");
}

function noticeText({ endsAt, endsBecause, onEnd }) {
  const isDeleted = onEnd === "delete" && endsBecause !== "schedule"; // a schedule always stops
  return `It is ${isDeleted ? "deleted, with its data," : "stopped"} at ${local(endsAt)}. ${endsBecause === "idle" ? "Using it, extending it" : "Extending it"} or changing the lease prevents that.`;
}

function withoutEnd({ lease, status }) {
  if (!lease) return "None: it runs until it is stopped or deleted.";
  if (status === "exited") return lease.startsAt ? `Starts at ${local(lease.startsAt)}.` : "It is stopped; the lease applies again when it is started.";
  return lease.idle ? "No end is known: it is in use, or how busy it is is not known." : "No end is known yet.";
}

function factsOf(lease) {
  const { extendedUntil, lastUsedAt } = lease;
  return [...partsOf(lease), lease.endsAt && ["Ends", moment(lease.endsAt)], extendedUntil && ["Extended until", moment(extendedUntil)], lastUsedAt && ["Last use reported", moment(lastUsedAt)]];
}

function show(isEdited) {
  $("lease-form").hidden = !isEdited;
  $("lease-edit").hidden = isEdited;
  $("lease-problem").hidden = true;
  if (!isEdited) $("lease-edit").focus();
}

async function save(event) {
  event.preventDefault();
  try {
    await request(path, { method: "PATCH", body: leasePatch($("lease-form")) });
    notice("The lease is changed.");
    show(false);
    onDone();
  } catch (error) {
    const left = showErrors($("lease-form"), error);
    $("lease-problem").hidden = !left;
    $("lease-problem").replaceChildren(...(error.code && !error.fields.length ? problemText(error) : [left]));
  }
}
