// The costs of 30 days as layers of a stack, one for each group. Pure.

import { money } from "../shared/format.js";

export const DAYS = 30;
export const MOST = 6; // groups with a layer of their own; more colours would look alike
const DAY_MS = 86400000;

// The days up to *now*, in UTC as the API counts them, oldest first, such as 2026-11-17.
export function daysUntil(now) {
  return Array.from({ length: DAYS }, (_, back) => new Date(now - (DAYS - 1 - back) * DAY_MS).toISOString().slice(0, 10));
}

// Layers [{name, values, today, week, all}] of a report: its groups, then the rest as one. *nameOf* gives names for keys.
export function layers({ groups, rest }, days, nameOf) {
  const all = groups.map((group) => layer(group.key === null ? "(none)" : nameOf(group.key), group, days));
  return rest ? [...all, layer(`${rest.groups} others`, rest, days)] : all;
}

function layer(name, group, days) {
  const known = new Map(group.days.map(({ day, usd }) => [day, usd]));
  const values = days.map((day) => known.get(day) ?? 0);
  return { name, values, today: values.at(-1), week: sum(values.slice(-7)), all: sum(values) };
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

export const total = (stack, part) => sum(stack.map((each) => each[part]));

// Between which amounts a cost is; the same amount twice says nothing more.
export function range({ low, high }) {
  const [least, most] = [money(low), money(high)];
  return least === most ? "exact to the cent" : `between ${least} and ${most}`;
}
