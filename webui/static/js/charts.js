// Charts of the load: series, range, and the source of longer ranges.

import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { h, replace, setText } from "./dom.js";
import { QuotaMarks } from "./quota_marks.js";
import { bytes, bytesPerSecond, digits, percent, quantile } from "./units.js";

/** The page keeps this many seconds; it requests longer ranges, as often as they change. */
export const KEPT = 900;
export const RANGES = { "1m": [60, "1 min"], "5m": [300, "5 min"], "15m": [900, "15 min"], "1h": [3600, "1 h"], "6h": [21600, "6 h"], "24h": [86400, "24 h"] };
const AGAIN_MS = { 3600: 30_000, 21600: 60_000, 86400: 60_000 };
const SMALL = 130;

/** The charts of the overview. */
export const OVERVIEW = {
  throughput: {
    label: "Throughput",
    format: bytesPerSecond,
    height: 256,
    series: [{ key: "bytes_in", label: "Bytes in", tone: "in" }, { key: "bytes_out", label: "Bytes out", tone: "out" }],
  },
  "chart-throttled": { label: "Throttled connections", format: digits, whole: true, height: 146, series: [{ key: "throttled", label: "Throttled, maximum", tone: "throttled" }] },
  "chart-idle": {
    label: "Threads idle",
    format: percent,
    height: 156,
    top: 1,
    levels: [{ value: 0.5, level: "watch" }, { value: 0.2, level: "urgent" }],
    series: [
      { key: "thread_idle", label: "Event loop", tone: "plain" },
      { key: "processor_idle", label: "Network threads", tone: "in" },
      { key: "handler_idle", label: "Request handlers", tone: "out" },
    ],
  },
};

/** The charts of the page Requests. */
export const REQUESTS = {
  "chart-requests": { label: "Requests", format: (value) => `${digits(value)}/s`, height: SMALL, series: [{ key: "requests", label: "Requests", tone: "in" }] },
  "chart-phases": {
    label: "Slowest requests",
    format: quantile,
    height: SMALL,
    series: document.body.dataset.gateway === "yes"
      ? [{ key: "produce_remote_ms", label: "Produce, upstream", tone: "in" }, { key: "local_ms", label: "Handled here", tone: "out" }]
      : [{ key: "queue_ms", label: "Queued", tone: "in" }, { key: "local_ms", label: "Handled", tone: "out" }],
  },
  "chart-queue": { label: "Requests queued", format: digits, whole: true, height: SMALL, series: [{ key: "requests_queued", label: "Queued, maximum", tone: "in" }] },
  "chart-memory": { label: "Request memory", format: bytes, height: SMALL, series: [{ key: "memory_pool_used", label: "In use, maximum", tone: "in" }] },
  "chart-blocked": {
    label: "Acceptor blocked",
    format: percent,
    height: SMALL,
    top: 1,
    levels: [{ value: 0.1, level: "watch" }, { value: 0.5, level: "urgent" }],
    series: [{ key: "acceptor_blocked", label: "Blocked", tone: "plain" }],
  },
  "chart-connections": { label: "Connections", format: digits, whole: true, height: SMALL, series: [{ key: "connections", label: "Open", tone: "plain" }] },
};

// Where a change of a quota shows its effect.
const MARKED = ["throughput", "chart-requests", "chart-throttled"];

export class Charts {
  /** `url` keeps the range; `options`: those of each chart, by its place. */
  constructor(url, options) {
    this.url = url;
    this.recent = null;
    this.long = null;
    this.charts = Object.entries(options).map(([id, each]) => new LineChart(document.getElementById(id), each));
    this.now = new Map(this.charts.map((chart) => [chart, this.legend(chart)]));
    const marked = this.charts.filter(({ container }) => MARKED.includes(container.id));
    this.marks = new QuotaMarks((marks) => marked.forEach((chart) => chart.mark(marks)));
    if (!(url.values.range in RANGES)) url.set({ range: "5m" });
    this.showRanges();
  }

  /** The legend of a chart: each series with its last value. */
  legend({ container, series }) {
    const values = series.map(() => h("b", "–"));
    replace(document.querySelector(`[data-legend="${container.id}"]`), series.map(({ label, tone }, index) => h("span", h(`i.${tone}`), label, values[index])));
    return values;
  }

  get seconds() {
    return RANGES[this.url.values.range][0];
  }

  showRanges() {
    const buttons = Object.entries(RANGES).map(([key, [, text]]) =>
      h("button", { type: "button", "aria-pressed": String(key === this.url.values.range), onclick: () => this.choose(key) }, text));
    const box = document.getElementById("range");
    const focused = [...box.children].indexOf(document.activeElement);
    replace(box, buttons);
    box.children[focused]?.focus();
  }

  choose(range) {
    this.url.set({ range });
    this.long = null;
    this.showRanges();
    this.show(this.recent);
  }

  /** `recent`: the columns that this page keeps. */
  async show(recent) {
    this.recent = recent;
    const { seconds } = this;
    if (!recent || seconds <= KEPT) {
      if (recent) this.draw(recent);
      return;
    }
    if (this.long?.seconds === seconds && performance.now() - this.long.at < AGAIN_MS[seconds]) return;
    this.long = { seconds, at: performance.now() };
    const answer = await get(`/api/v1/overview?history_s=${seconds}`).catch(() => null);
    if (answer && this.seconds === seconds) this.draw(answer.history);
  }

  draw(columns) {
    for (const chart of this.charts) {
      // What is never known here, such as the phases of requests before the first one, has no chart.
      const isKnown = chart.series.some(({ key }) => columns[key].some((value) => value !== null));
      chart.container.closest("[data-chart]").hidden = !isKnown && chart.container.id !== "throughput";
      chart.show(columns, this.seconds);
      chart.series.forEach(({ key }, index) => setText(this.now.get(chart)[index], chart.formatValue(columns[key].at(-1) ?? null)));
    }
  }
}
