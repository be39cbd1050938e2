// One stream of server-sent events for a page. Browsers allow six connections per host, so it closes while the page is
// hidden, and with many pages open after each update, for a while. It reports when updates stop, and dispatches
// `recovered` when they begin or begin again.

import { OpenPages } from "./open_pages.js";
import { sessionEnded } from "./session.js";

const STALE_AFTER_MS = 4000;
const HIDDEN_FOR_MS = 5000;
const REST_MS = 3000;
const UPDATED_WITHIN_MS = 1000;

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
    this.pages = new OpenPages();
    // The topics that the open stream has not sent yet.
    this.awaited = new Set();
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
    this.awaited = new Set(this.topics);
    if (document.hidden) this.hide();
    for (const topic of this.topics) {
      source.addEventListener(topic, (event) => this.arrived(topic, event));
    }
    source.addEventListener("signed-out", () => this.ended());
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) this.refused(source);
    });
  }

  close() {
    clearTimeout(this.resting);
    this.source?.close();
    this.source = null;
  }

  /** Leaves the connection to others for a while, once the page is up to date. */
  rest() {
    const isUpdated = this.awaited.size === 0 || (this.lastAt > this.openedAt && Date.now() - this.openedAt > UPDATED_WITHIN_MS);
    if (!isUpdated || this.pages.mayKeep()) return;
    this.close();
    this.resting = setTimeout(() => this.open(), REST_MS);
  }

  arrived(topic, event) {
    this.lastAt = Date.now();
    this.onstate("live", this.lastAt);
    if (!this.isLive) {
      this.isLive = true;
      document.dispatchEvent(new Event("recovered"));
    }
    this.handlers.get(topic)?.(JSON.parse(event.data));
    this.awaited.delete(topic);
    this.rest();
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
    if (document.hidden) return this.hide();
    clearTimeout(this.hiding);
    if (this.source === null) {
      this.onstate("waiting", this.lastAt);
      this.open();
    }
  }

  hide() {
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => {
      this.close();
      this.onstate("paused", this.lastAt);
    }, HIDDEN_FOR_MS);
  }

  watch() {
    if (this.source === null) return;
    this.rest();
    if (this.source === null) return;
    const quietFor = Date.now() - Math.max(this.lastAt, this.openedAt);
    if (quietFor > STALE_AFTER_MS) {
      this.isLive = false;
      this.onstate("stale", this.lastAt);
    }
  }
}
