// The import of client quotas: their differences, and the clients that they reach.

import { h } from "./dom.js";
import { entityChips } from "./entity.js";
import { ImportPanel } from "./import_panel.js";
import { movedLines } from "./quota_preview.js";
import { changeText } from "./quota_times.js";
import { limitLabel, rate, rawRate } from "./units.js";

const EXAMPLE = `quotas:
- entity:
    user: alice
  limits:
    producer_byte_rate: 1000000`;

export function quotaImport(onclose) {
  return new ImportPanel({ path: "/api/v1/client-quotas:import", title: "Import quotas", nouns: ["rule", "rules"], example: EXAMPLE, rows, reach, onclose });
}

function rows({ changes, shadow_changes: shadows, temporary_changes: temporary }) {
  return [
    ...changes.map(({ entity, key, old, new: after }) => ({ what: entityChips(entity), key: limitLabel(key), ...texts(key, old, after) })),
    ...shadows.map(({ entity, shadow }) => ({ what: entityChips(entity), key: "Mode", before: shadow ? "Enforced" : "Shadow (not enforced)", after: shadow ? "Shadow (not enforced)" : "Enforced" })),
    ...temporary.map(({ entity, key, old, new: after }) => ({ what: entityChips(entity), key: `${limitLabel(key)}, temporary`, before: changeText(key, old), after: changeText(key, after) })),
  ];
}

/** Limits that are equal after rounding are shown in full. */
function texts(key, old, after) {
  const isClose = old !== null && after !== null && rate(key, old) === rate(key, after);
  const text = (value) => value && (isClose ? rawRate(key, value) : rate(key, value));
  return { before: text(old), after: text(after) };
}

function reach({ reach: reaches, warnings }) {
  return [
    warnings.map((warning) => h("p.warn", warning, ".")),
    reaches ? movedLines(reaches) : h("p.quiet", "The quota callback receives these changes and decides their effect."),
  ];
}
