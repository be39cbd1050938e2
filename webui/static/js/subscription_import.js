// The import of subscriptions to client metrics: their differences.

import { h } from "./dom.js";
import { ImportPanel } from "./import_panel.js";
import { everyText } from "./units.js";

const LABELS = { metrics: "Metrics", "interval.ms": "Interval", match: "Client match" };
const EXAMPLE = `subscriptions:
- name: queues
  metrics: [org.apache.kafka.producer.]
  interval.ms: 60000
  match: [client_id=orders-.*]`;

export function subscriptionImport(onclose) {
  return new ImportPanel({ path: "/api/v1/client-metrics:import", title: "Import subscriptions", nouns: ["subscription", "subscriptions"], example: EXAMPLE, rows, onclose });
}

function rows({ changes }) {
  return changes.map(({ name, key, old, new: after }) => ({ what: h("b.name", name), key: LABELS[key], before: text(key, old), after: text(key, after) }));
}

function text(key, value) {
  if (value === null) return null;
  if (key === "interval.ms") return everyText(value);
  if (value.length === 0) return h("span.quiet", key === "match" ? "any client" : "none");
  return h("span.name", value.join(", "));
}
