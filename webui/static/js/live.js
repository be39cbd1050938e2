// One stream of server-sent events for a page. It closes while the page is hidden, because browsers allow six
// connections per host, and reports when updates stop. Dispatches `recovered` when they begin or begin again.

import { sessionEnded } from "./session.js";

const STALE_AFTER_MS = 4000;
const HIDDEN_FOR_MS = 5000;

export class Live {
  /** `onstate(state, since)`: "waiting", "live", "stale", "paused" or "ended". */
  constructor(topics, onstate) {
    this.topics = topics;
    this.onstate = onstate;
    this.handlers = new Map();
    this.query = {};
    this.source = null;
    this.lastAt = 0;
    this.openedAt = 0;
    this.isLive = false;
    document.addEventListener("visibilitychange", () => this.seen());
    document.addEventListener("signed-in", () => this.open());
    setInterval(() => this.watch(), 1000);
  }

  on(topic, handler) {
    this.handlers.set(topic, handler);
    return this;
  }

  /** Opens the stream, or reopens it with other parameters. */
  open(query = this.query) {
    this.query = query;
    this.close();
    const search = new URLSearchParams({ ...query, topics: this.topics.join(",") });
    const source = new EventSource(`/api/v1/events?${search}`);
    this.source = source;
    this.openedAt = Date.now();
    for (const topic of this.topics) {
      source.addEventListener(topic, (event) => this.arrived(topic, event));
    }
    source.addEventListener("signed-out", () => this.ended());
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) this.refused(source);
    });
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  arrived(topic, event) {
    this.lastAt = Date.now();
    this.onstate("live", this.lastAt);
    if (!this.isLive) {
      this.isLive = true;
      document.dispatchEvent(new Event("recovered"));
    }
    this.handlers.get(topic)?.(JSON.parse(event.data));
  }

  // The server refused the stream: logged out, or too many pages.
  async refused(source) {
    try {
      const answer = await fetch("/session");
      if (answer.status === 401) return this.ended();
    } catch {
      // The server is unreachable.
    }
    setTimeout(() => this.source === source && !document.hidden && this.open(), 3000);
  }

  ended() {
    this.close();
    this.onstate("ended", this.lastAt);
    sessionEnded();
  }

  seen() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.close();
        this.onstate("paused", this.lastAt);
      }, HIDDEN_FOR_MS);
    } else if (this.source === null) {
      this.onstate("waiting", this.lastAt);
      this.open();
    }
  }

  watch() {
    if (this.source === null) return;
    const quietFor = Date.now() - Math.max(this.lastAt, this.openedAt);
    if (quietFor > STALE_AFTER_MS) {
      this.isLive = false;
      this.onstate("stale", this.lastAt);
    }
  }
}
