// Marks on charts where quotas changed: read from the audit trail, again whenever something was changed.

import { get } from "./api.js";
import { keyText, valueText } from "./audit_text.js";
import { entityText } from "./entity.js";

// The newest changes; a chart with more marks than that shows none of the older ones.
const MOST = 200;

export class QuotaMarks {
  /** `show(marks)` is called with [{at, text}], oldest first. */
  constructor(show) {
    this.show = show;
    this.version = null;
  }

  /** `version`: of the broker's metadata. */
  async update(version) {
    if (version === this.version) return;
    this.version = version;
    const page = await get(`/api/v1/audit?${new URLSearchParams({ kind: "client-quota", limit: MOST })}`).catch(() => null);
    if (page !== null) this.show(marksOf(page.items));
    else if (this.version === version) this.version = null;
  }
}

/** One mark for the changes that were made together. `changes`: newest first. */
function marksOf(changes) {
  const batches = new Map();
  for (const change of changes) batches.set(change.batch, [...(batches.get(change.batch) ?? []), change]);
  return [...batches.values()].reverse().map((made) => {
    const first = made.at(-1);
    const others = made.length > 1 ? `, and ${made.length - 1} more` : "";
    return { at: Date.parse(first.at), text: `${changeText(first)}${others} (${first.actor})` };
  });
}

function changeText({ kind, key, quota, old, new: now }) {
  const value = now === null ? "removed" : valueText(kind, key, now);
  const before = old === null ? "" : `${valueText(kind, key, old)} to `;
  return `${entityText(quota)}: ${keyText(key)} ${before}${value}`;
}
