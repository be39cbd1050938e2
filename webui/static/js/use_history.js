// The use of limits in the last minutes, as this page has seen it: by the second, for the lines in the rows.

const KEPT_S = 120;

export class UseHistory {
  constructor() {
    this.series = new Map();
  }

  /** `rows`: [{key, values: {name: value}}], all that are shown; those of other rows are forgotten. */
  add(rows, now = Date.now()) {
    const second = Math.floor(now / 1000);
    const kept = new Map();
    for (const { key, values } of rows) {
      for (const [name, value] of Object.entries(values)) {
        const id = `${key} ${name}`;
        const known = this.series.get(id) ?? { second, values: [] };
        // An event that does not come says that nothing has changed.
        const missed = Math.min(Math.max(second - known.second - 1, 0), KEPT_S);
        const again = second === known.second && known.values.length ? known.values.slice(0, -1) : known.values;
        const filled = [...again, ...Array(missed).fill(known.values.at(-1) ?? value), value];
        kept.set(id, { second, values: filled.slice(-KEPT_S) });
      }
    }
    this.series = kept;
  }

  /** The values of one row, a second apart, the oldest first. */
  of(key, name) {
    return this.series.get(`${key} ${name}`)?.values ?? [];
  }
}
