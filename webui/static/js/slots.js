// Places of rows: a row that goes leaves its place empty, and one that comes takes it, so that no other row moves.

export class Slots {
  constructor(keyOf) {
    this.keyOf = keyOf;
    // The keys from top to bottom; null is a row that has gone.
    this.keys = [];
    this.choice = null;
  }

  /** The rows in their places, null for an empty one. Another `choice` than before, of the user, orders them anew. */
  place(rows, choice = "") {
    const byKey = new Map(rows.map((row) => [this.keyOf(row), row]));
    this.keys = choice === this.choice ? this.keys.map((key) => (byKey.has(key) ? key : null)) : [];
    this.choice = choice;
    const placed = new Set(this.keys);
    for (const key of byKey.keys()) {
      if (placed.has(key)) continue;
      const free = this.keys.indexOf(null);
      if (free < 0) this.keys.push(key);
      else this.keys[free] = key;
    }
    while (this.keys.length && this.keys.at(-1) === null) this.keys.pop();
    return this.keys.map((key) => byKey.get(key) ?? null);
  }
}
