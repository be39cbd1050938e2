// Recommended quotas: the limit, its reason, and a link to the editor with the limit filled in.

import { h, needs } from "./dom.js";
import { entityChips, entityKey, entityText } from "./entity.js";
import { entityOf, placed, shown } from "./insight_cells.js";
import { Section } from "./insight_section.js";
import { SimulatedDay } from "./insight_what_if.js";
import { once } from "./table.js";
import { duration, limitLabel, percent, rate, rawRate } from "./units.js";

export function proposal(row) {
  return `/quotas?${new URLSearchParams({ add: JSON.stringify({ entity: entityOf(row), limits: { [row.key]: row.recommended } }) })}`;
}

/** All recommendations as a quota file for `weir quotas apply` and `weir pipeline what-if`. */
export function quotaFile(rows) {
  const rules = new Map();
  for (const row of rows.filter(isKnown)) {
    const entity = entityOf(row);
    const key = JSON.stringify(entity);
    if (!rules.has(key)) rules.set(key, { entity, limits: {} });
    rules.get(key).limits[row.key] = row.recommended;
  }
  return { quotas: [...rules.values()] };
}

/** Where a limit held, what is needed is unknown. */
function isKnown({ recommended }) {
  return recommended !== null;
}

export function adviceSection({ warehouse, query, scope }) {
  const simulatedDay = new SimulatedDay(scope);
  return new Section({
    id: "advice",
    label: "Recommended quotas",
    keyOf: (row) => JSON.stringify([row.cluster, row.user, row.client_id, row.key]),
    none: "No recommendations: no client was active for 30 minutes on one of these days.",
    missing: "No recommendations yet. The pipeline writes them for each client that was active for at least 30 minutes of a day.",
    query,
    columns: [
      { label: "For", sort: "user", size: "who", whole: "bare", cell: (row, td) => placed(row, td, entityKey(entityOf(row)), () => entityChips(entityOf(row))) },
      { label: "Limit", sort: "key", size: "small", cell: ({ key }, td) => once(td, key, () => limitLabel(key)) },
      { label: "Recommended", sort: "recommended", size: "small", num: true, cell: recommendedCell },
      { label: "Peak", sort: "peak", size: "small", num: true, cell: ({ key, peak }, td) => once(td, `${key} ${peak}`, () => h("span", { title: rawRate(key, peak) }, rate(key, peak))) },
      { label: "Throttled", sort: "throttled_requests_share", size: "small", num: true, cell: throttledCell },
      { label: "Why", size: "reason", whole: true, cell: ({ reason, day }, td) => once(td, `${day} ${reason}`, () => h("span.two", h("span.name", reason), h("span", `Of ${day}`))) },
      { label: "", size: "go", whole: "bare", num: true, cell: goCell },
    ],
    below: (rows) => below(rows, simulatedDay, warehouse),
  });
}

function below(rows, simulatedDay, warehouse) {
  if (!rows.some(isKnown)) return null;
  // A quota file is for one cluster: two of them may have users of the same name.
  if (shown.severalClusters) return h("p.quiet", "Choose a cluster to simulate its recommendations, or to download them as a quota file.");
  return simulatedDay.show(quotaFile(rows), lastDay(rows), command(rows, warehouse()));
}

function recommendedCell({ key, recommended, held_limit: limit }, td) {
  once(td, `${key} ${recommended} ${limit}`, () => recommended === null
    ? h("span.quiet", { title: limit === null ? "A limit held, so the need is unknown" : `A limit of ${rate(key, limit)} held, so the need is unknown` }, "unknown")
    : h("b", { title: rawRate(key, recommended) }, rate(key, recommended)));
}

function throttledCell({ basis, throttled_requests_share: share, throttled_time_share: time, longest_wait_ms: longest }, td) {
  once(td, `${basis} ${share} ${time} ${longest}`, () => {
    if (share === null) return h("span.quiet", { title: basis === null ? "An earlier version of the pipeline wrote this row" : "There are no events of the throttles" }, "–");
    const by = basis === "simulated" ? "by the recommended limit, in a simulation of that day" : "by the limits of that day";
    return h("span", { title: `${percent(share)} of the requests, for ${percent(time)} of the time and at most ${duration(longest)}: ${by}` }, share ? percent(share) : "never");
  });
}

function goCell(row, td) {
  if (!isKnown(row)) return once(td, "unknown", () => h("span"));
  const label = `Set ${limitLabel(row.key)} of ${entityText(entityOf(row))}`;
  once(td, `${label} ${row.recommended}`, () => needs("editor", h("a.button.small", { href: proposal(row), "aria-label": label }, "Open in editor")));
}

function lastDay(rows) {
  return rows.map((row) => row.day).sort().at(-1);
}

function command(rows, { warehouse }) {
  const [{ cluster }] = rows;
  const only = cluster === null ? "" : ` --cluster ${quoted(cluster)}`;
  return `weir pipeline what-if advice.json --from ${lastDay(rows)}${only} --warehouse ${quoted(warehouse)}`;
}

function quoted(path) {
  return /^[\w./:@-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\"'\"'")}'`;
}
