// The columns of the broker's load that a page keeps: loaded once, then extended by the live stream.

import { get } from "./api.js";
import { KEPT } from "./charts.js";

// A longer distance between two samples means that the stream was interrupted: reload the history.
const MISSED_MS = 2500;

export class LoadFeed {
  /** `show(columns)` is called after each change. */
  constructor(show) {
    this.show = show;
    this.columns = null;
  }

  /** Loads the history. Resolves to the overview that came with it. */
  async start() {
    const { history, ...overview } = await get(`/api/v1/overview?history_s=${KEPT}`);
    this.columns = history;
    this.show(history);
    return overview;
  }

  /** An overview of the live stream. */
  arrived({ sample }) {
    const last = this.columns?.at_ms.at(-1) ?? 0;
    if (!this.columns || !sample || sample.at_ms <= last) return;
    for (const [key, column] of Object.entries(this.columns)) {
      column.push(sample[key]);
      if (column.length > KEPT) column.shift();
    }
    this.show(this.columns);
    // A failed request leaves a gap in the charts.
    if (last && sample.at_ms - last > MISSED_MS) this.start().catch(() => null);
  }
}

/** Where gateways share limits, says which numbers are sums of all of them. */
export function showSums({ gateways }) {
  const number = gateways?.gateways ?? 1;
  for (const note of document.querySelectorAll("[data-sums]")) note.textContent = number > 1 ? `sum of ${number} gateways` : "";
  for (const note of document.querySelectorAll("[data-own]")) note.textContent = number > 1 ? "this gateway" : "";
}
