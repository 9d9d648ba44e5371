// The settings in force: those that differ from their default first.

import { request } from "../shared/api.js";
import { el } from "../shared/dom.js";
import { bodyOf, render, table } from "../shared/parts.js";

export async function show() {
  const { settings } = await request("/api/settings");
  const changed = settings.filter(({ value, default: usual }) => value !== usual);
  const others = settings.filter(({ value, default: usual }) => value === usual);
  render(bodyOf("settings"), settings, () => [
    el("p", { className: "note" }, "Of the process that answers; they change only when it is started again. Secrets are masked."),
    el("h3", {}, `Changed (${changed.length})`),
    changed.length ? settingTable("Settings that differ from their default", changed) : el("p", { className: "note" }, "None: every setting has its default."),
    el("details", {}, el("summary", {}, `With their default (${others.length})`), settingTable("Settings with their default", others)),
  ]);
}

function settingTable(label, settings) {
  return table(label, ["Setting", "Value", "Default", "Meaning"], settings.map(({ name, value, default: usual, meaning }) => [
    el("code", {}, name), el("code", {}, value), el("code", {}, usual), meaning]));
}
