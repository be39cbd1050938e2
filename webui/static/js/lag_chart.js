// The lag of a group, or of all groups together, over time, with the part of it that is lost.

import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { digits } from "./units.js";

const AGAIN_MS = 10_000;
const LEAST_S = 300;

export class LagChart extends LineChart {
  constructor(container, { label, height = 150, withLost = false }) {
    const lost = { key: "lost", label: "Lost (records)", tone: "throttled" };
    super(container, { label, height, whole: true, format: digits, series: [{ key: "lag", label: "Lag (records)", tone: "out" }, ...(withLost ? [lost] : [])] });
    this.again();
  }

  /** Loads at the next call, whenever the last one was. */
  again() {
    this.loaded = { group: undefined, at: -Infinity };
  }

  /** Shows the last `seconds` of `group`, null for all; loads them every ten seconds. Null if there is nothing new. */
  async load(group, seconds) {
    const { group: last, at } = this.loaded;
    if (last === group && performance.now() - at < AGAIN_MS) return null;
    this.loaded = { group, at: performance.now() };
    const query = new URLSearchParams({ seconds, ...(group !== null && { group }) });
    try {
      const answer = await get(`/api/v1/groups:lag?${query}`);
      if (this.loaded.group !== group) return null;
      const times = answer.at_ms;
      // A history that has just begun fills the chart.
      const known = times.length ? (times.at(-1) - times[0]) / 1000 : 0;
      this.show(answer, Math.min(seconds, Math.max(known, LEAST_S)));
      return answer;
    } catch {
      return null; // the live mark says that the broker does not respond
    }
  }
}

/** How many records were deleted in this history before the group read them: it went on behind them, or has not yet. */
export function lostIn({ lost }) {
  let passed = 0;
  let before = 0;
  for (const now of lost) {
    if (now === null) continue;
    passed += Math.max(0, before - now);
    before = now;
  }
  return passed + before;
}
