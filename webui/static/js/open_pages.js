// Which pages of this browser keep a stream. A browser opens six connections to a host: if streams have all of them, no
// page loads any more. Those pages keep theirs that were used last; the others take turns (live.js).

const KEPT = 4;
const TELL_MS = 2000;
const GONE_MS = 5000;

export class OpenPages {
  constructor() {
    this.id = Math.random().toString(36).slice(2);
    this.usedAt = Date.now();
    // When each other page was used last, and when it was heard.
    this.others = new Map();
    this.channel = new BroadcastChannel("weir-open-pages");
    this.channel.addEventListener("message", ({ data: { id, usedAt } }) => {
      if (usedAt === null) this.others.delete(id);
      else this.others.set(id, { usedAt, heardAt: Date.now() });
    });
    window.addEventListener("focus", () => {
      this.usedAt = Date.now();
      this.tell();
    });
    window.addEventListener("pagehide", () => this.tell(null));
    setInterval(() => document.hidden || this.tell(), TELL_MS);
    this.tell();
  }

  tell(usedAt = this.usedAt) {
    this.channel.postMessage({ id: this.id, usedAt });
  }

  /** Whether this page is among those used last; hidden ones do not count. */
  mayKeep() {
    const now = Date.now();
    const isLater = ([id, { usedAt, heardAt }]) => now - heardAt < GONE_MS && (usedAt > this.usedAt || (usedAt === this.usedAt && id > this.id));
    return [...this.others].filter(isLater).length < KEPT;
  }
}
