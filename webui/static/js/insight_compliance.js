// Throttling against compliance: how long each client was throttled, and whether it waited.

import { h } from "./dom.js";
import { client, number, shortDuration, software } from "./insight_cells.js";
import { Section } from "./insight_section.js";
import { once } from "./table.js";
import { percent } from "./units.js";

const VERDICTS = { true: "yes", false: "no" };

export function complianceSection({ query }) {
  return new Section({
    id: "throttle-compliance",
    path: "/api/v1/insights/throttle-compliance:summary",
    label: "Throttle time and compliance of clients, the longest throttled first",
    keyOf: (row) => JSON.stringify([row.cluster, row.user, row.client_id, row.software_name, row.software_version]),
    none: "No client was throttled on these days.",
    missing: "No throttles recorded yet: the table does not exist.",
    query,
    columns: [
      client,
      { label: "Software", sort: "software_name", size: "rule", whole: true, cell: (row, td) => once(td, software(row), () => h("span.name", software(row))) },
      { label: "Complies", sort: "obeys", size: "small", cell: ({ obeys }, td) => once(td, String(obeys), () => h("span.tag", { data: { obeys: String(obeys) } }, VERDICTS[obeys] ?? "unknown")) },
      number("Throttles", "throttles"),
      number("Total", "throttle_ms", shortDuration),
      number("Waited", "waited"),
      number("Sent early", "sent_early"),
      { label: "Early share", sort: "early_share", size: "small", num: true, cell: ({ early_share: share }, td) => once(td, String(share), () => earlyShare(share)) },
    ],
  });
}

function earlyShare(share) {
  if (share === null) return "–";
  const bar = h("i");
  bar.style.transform = `scaleX(${share})`;
  const level = share >= 0.5 ? "urgent" : share > 0.125 ? "watch" : "good";
  return h("span", h("b", percent(share)), h("span.bar", { data: { level } }, bar));
}
