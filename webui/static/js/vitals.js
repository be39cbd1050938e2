// Gauges, queues and request phases.

import { h, refresh, replace, setText } from "./dom.js";
import { bytes, digits, group, percent, quantile } from "./units.js";

const WORDS = { good: "healthy", watch: "watch", urgent: "urgent" };

/** Kafka's rule of thumb for idle threads: 60 % and more is healthy, below 50 % needs attention, below 20 % is urgent. */
function idleLevel(idle) {
  return idle < 0.2 ? "urgent" : idle < 0.5 ? "watch" : "good";
}

function useLevel(used) {
  return used > 0.9 ? "urgent" : used > 0.7 ? "watch" : "good";
}

class Gauge {
  constructor(label, hint) {
    this.word = h("span.quiet");
    this.figure = h("b");
    this.fill = h("i");
    this.bar = h("span.bar", this.fill);
    this.element = h("div.gauge", h("p", { title: hint }, h("span", label), this.word, this.figure), this.bar);
  }

  /** `fraction` null: the value has no maximum. */
  show(fraction, figure, level, word) {
    this.bar.hidden = fraction === null;
    setText(this.figure, figure);
    setText(this.word, word);
    this.fill.style.transform = `scaleX(${Math.min(1, Math.max(0, fraction))})`;
    this.bar.dataset.level = level;
  }
}

const gauges = new Map();

/** The gauge of this name in the box, made at the first use. */
export function gauge(box, name, label, hint) {
  if (!gauges.has(name)) {
    gauges.set(name, new Gauge(label, hint));
    box.append(gauges.get(name).element);
  }
  return gauges.get(name);
}

export function showHealth(box, metrics) {
  const idle = (name, label, hint, value) => {
    if (value === null) return;
    const level = idleLevel(value);
    gauge(box, name, label, hint).show(value, percent(value), level, WORDS[level]);
  };
  idle("thread", "Thread idle", "The share of time in which the broker's one thread has no work. It runs the network threads and the request handlers", metrics.thread_idle);
  idle("processors", "Network threads idle", "Kafka: NetworkProcessorAvgIdlePercent. The share of time in which no request is read and no response written", metrics.processor_idle);
  idle("handlers", "Request handlers idle", "Kafka: RequestHandlerAvgIdlePercent. The share of time in which no request is handled", metrics.handler_idle);
  if (metrics.acceptor_blocked !== null) {
    const blocked = metrics.acceptor_blocked;
    const level = blocked > 0.5 ? "urgent" : blocked > 0.1 ? "watch" : "good";
    gauge(box, "acceptor", "Acceptor blocked", "Kafka: AcceptorBlockedPercent").show(blocked, percent(blocked), level, WORDS[level]);
  }
  const size = metrics.memory_pool_size;
  const used = size ? metrics.memory_pool_used / size : null;
  const figure = size ? `${bytes(metrics.memory_pool_used, true)} of ${bytes(size, true)}` : "no limit";
  gauge(box, "memory", "Request memory", "queued.max.request.bytes").show(used, figure, useLevel(used), "");
  const controllers = metrics.controller_memory_pool_size;
  if (controllers) {
    const taken = metrics.controller_memory_pool_used;
    gauge(box, "controller-memory", "Request memory of the controller", "queued.max.request.bytes")
      .show(taken / controllers, `${bytes(taken, true)} of ${bytes(controllers, true)}`, useLevel(taken / controllers), "");
  }
  // Without queued.max.request.bytes nothing is measured.
  document.getElementById("chart-memory").closest("[data-chart]").hidden = !size;
  setText(document.querySelector("[data-note='chart-memory']"), size ? `of ${bytes(size, true)}` : "");
}

const queueGauges = new Map();

export function showQueues(box, queues) {
  if (queues.length === 0) {
    replace(box, h("p.quiet", "No queue has been reported yet."));
    queueGauges.clear();
    return;
  }
  if (queueGauges.size === 0) replace(box);
  for (const { name, depth, capacity, peak } of queues) {
    if (!queueGauges.has(name)) {
      const made = new Gauge(capitalised(name), capacity ? `Capacity ${group(capacity)}` : "");
      queueGauges.set(name, made);
      box.append(made.element);
    }
    const used = capacity ? depth / capacity : null;
    const deepest = `peak ${group(peak)}`;
    queueGauges.get(name).show(used, capacity ? `${group(depth)} of ${group(capacity)}` : group(depth), useLevel(used), deepest);
  }
}

function capitalised(name) {
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}

const PHASES = [
  ["RequestQueueTimeMs", "Queued"],
  ["LocalTimeMs", "Local"],
  ["RemoteTimeMs", document.body.dataset.gateway === "yes" ? "Upstream" : "Waiting"],
  ["ThrottleTimeMs", "Throttled"],
  ["ResponseQueueTimeMs", "Response queued"],
  ["ResponseSendTimeMs", "Sending"],
  ["TotalTimeMs", "Total without throttling"],
];

export function showPhases(box, phases) {
  const byApi = new Map();
  for (const row of phases) {
    if (!byApi.has(row.api)) byApi.set(row.api, new Map());
    byApi.get(row.api).set(row.phase, row);
  }
  if (byApi.size === 0) {
    replace(box, h("p.quiet", "No requests yet."));
    return;
  }
  const columns = PHASES.filter(([phase]) => phases.some((row) => row.phase === phase));
  const count = (api) => Math.max(...[...byApi.get(api).values()].map((row) => row.count));
  const apis = [...byApi.keys()].sort((one, other) => count(other) - count(one)).slice(0, 8);
  const head = h("tr", h("th", { scope: "col" }, "Request"), h("th.num", { scope: "col" }, "Answered"), columns.map(([, label]) => h("th.num", { scope: "col" }, label)));
  const rows = apis.map((api) => {
    const cells = columns.map(([phase]) => cell(byApi.get(api).get(phase), phase));
    return h("tr", h("th.row", { scope: "row" }, apiName(api)), h("td.num.quiet", compact(count(api))), cells);
  });
  refresh(box, h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Request phases" }, h("table.phases", h("thead", head), h("tbody", rows))));
}

function cell(row, phase) {
  if (!row || row.p99_ms === null) return h("td.num.quiet", "–");
  const title = `p50 ${quantile(row.p50_ms)}, p99 ${quantile(row.p99_ms)}, ${group(row.count)} requests`;
  const level = phase === "TotalTimeMs" ? "total" : row.p99_ms < 1 ? "small" : "usual";
  return h("td.num", { title, data: { level } }, quantile(row.p99_ms));
}

// METADATA and API_VERSIONS become Metadata and ApiVersions, as in the protocol's documentation.
function apiName(name) {
  const parts = name.split("_").map((part) => capitalised(part.toLowerCase()));
  return name === name.toUpperCase() ? parts.join("") : name;
}

function compact(value) {
  if (value < 10_000) return group(value);
  return value < 1e6 ? `${digits(value / 1e3)} k` : value < 1e9 ? `${digits(value / 1e6)} M` : `${digits(value / 1e9)} G`;
}
