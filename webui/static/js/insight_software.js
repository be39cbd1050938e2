// Latency by client software and version.

import { h } from "./dom.js";
import { micros, number, software, text } from "./insight_cells.js";
import { Section } from "./insight_section.js";
import { once } from "./table.js";

const ATTRIBUTIONS = {
  several: ["several versions", "These clients used several versions on the same day"],
  unknown: ["unknown", "No event told the software of these clients: they have not closed a connection, been throttled or pushed metrics"],
};

export function softwareSection({ query, shown }) {
  return new Section({
    id: "software",
    path: "/api/v1/insights/latency-by-software",
    label: "Duration of requests by client version",
    keyOf: (row) => JSON.stringify([row.software_name, row.software_version, row.attribution, row.api]),
    none: "No timed requests on these days.",
    missing: "No data yet: the pipeline computes this table for whole days, once a client has closed a connection, been throttled or pushed metrics.",
    query,
    shown,
    columns: [
      { label: "Software", sort: "software_name", size: "who", whole: true, cell: (row, td) => once(td, `${software(row)} ${row.attribution}`, () => named(row)) },
      text("API", "api", { size: "rule" }),
      number("Clients", "clients"),
      number("Requests", "timed"),
      number("p50", "p50_us", micros),
      number("p95", "p95_us", micros),
      number("Worst p99", "p99_us", micros),
      number("Longest", "max_us", micros),
    ],
  });
}

function named(row) {
  const [label, title] = ATTRIBUTIONS[row.attribution] ?? [];
  if (!label) return h("b.name", software(row));
  return h("span.two", { title }, h("b.name", row.software_name || label), row.software_name && h("span", label));
}
