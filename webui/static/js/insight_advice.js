// Recommended quotas: what a limit should be, why, and the way to the editor with it typed in and not saved.

import { h, needs } from "./dom.js";
import { entityChips, entityWords } from "./entity.js";
import { Section } from "./insight_section.js";
import { PlayedDay } from "./insight_what_if.js";
import { once } from "./table.js";
import { group, KEYS, percent, rate, rawRate } from "./units.js";

/** Whom advice is for: a user, or without a login a client id. */
export function entityOf({ user, client_id: clientId }) {
  return user === null ? { "client-id": clientId } : { user };
}

export function proposal(row) {
  return `/quotas?${new URLSearchParams({ add: JSON.stringify({ entity: entityOf(row), limits: { [row.key]: row.recommended } }) })}`;
}

/** All of it as a quota file, which `weir quotas apply` and `weir pipeline what-if` read. */
export function quotaFile(rows) {
  const rules = new Map();
  for (const row of rows) {
    const entity = entityOf(row);
    const key = JSON.stringify(entity);
    if (!rules.has(key)) rules.set(key, { entity, limits: {} });
    rules.get(key).limits[row.key] = row.recommended;
  }
  return { quotas: [...rules.values()] };
}

export function adviceSection(warehouse) {
  const played = new PlayedDay();
  return new Section({
    id: "advice",
    path: "/api/v1/insights/advice",
    label: "Recommended quotas",
    keyOf: (row) => `${row.user} ${row.client_id} ${row.key}`,
    none: "No advice: nobody was active for half an hour of one of these days.",
    missing: "There is no advice yet. The pipeline gives it for every day on which somebody was active for half an hour.",
    columns: [
      { label: "For", size: "who", whole: "bare", cell: (row, td) => once(td, JSON.stringify(entityOf(row)), () => entityChips(entityOf(row))) },
      { label: "Limit", size: "small", cell: ({ key }, td) => once(td, key, () => KEYS[key]?.label ?? key) },
      { label: "Should be", size: "small", num: true, cell: ({ key, recommended }, td) => once(td, `${key} ${recommended}`, () => h("b", { title: rawRate(key, recommended) }, rate(key, recommended))) },
      { label: "Reached", size: "small", num: true, cell: ({ key, peak }, td) => once(td, `${key} ${peak}`, () => h("span", { title: rawRate(key, peak) }, rate(key, peak))) },
      { label: "Above it", size: "small", num: true, cell: heldCell },
      { label: "Why", size: "reason", whole: true, cell: ({ reason, day }, td) => once(td, `${day} ${reason}`, () => h("span.two", h("span.name", reason), h("span", `Of ${day}`))) },
      { label: "", size: "go", whole: "bare", num: true, cell: goCell },
    ],
    below: (rows) => (rows.length ? played.show(quotaFile(rows), lastDay(rows), command(rows, warehouse())) : null),
  });
}

function heldCell({ throttled_minutes: minutes, minutes: active, throttled_share: share }, td) {
  once(td, `${minutes} ${active}`, () => h("span", { title: `${group(minutes)} of ${group(active)} active minutes were above it` }, minutes ? percent(share) : "nobody"));
}

function goCell(row, td) {
  const label = `Set ${KEYS[row.key]?.label ?? row.key} of ${entityWords(entityOf(row))}`;
  once(td, `${label} ${row.recommended}`, () => needs("editor", h("a.button.small", { href: proposal(row), "aria-label": label }, "Open in editor")));
}

function lastDay(rows) {
  return rows.map((row) => row.day).sort().at(-1);
}

function command(rows, { warehouse }) {
  return `weir pipeline what-if advice.json --from ${lastDay(rows)} --warehouse ${quoted(warehouse)}`;
}

function quoted(path) {
  return /^[\w./:@-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\"'\"'")}'`;
}
