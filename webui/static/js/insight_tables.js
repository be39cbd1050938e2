// The tables of the Insights page except the recommendations: columns and empty states.

import { h, setText } from "./dom.js";
import { ANONYMOUS, entityChips, entityKey, ruleLink } from "./entity.js";
import { Section } from "./insight_section.js";
import { once } from "./table.js";
import { bytes, clock, day, digits, duration, group, KEYS, percent, quantile, rate } from "./units.js";

/** Seconds below a minute, coarser units above. */
export function shortDuration(ms) {
  return ms < 60_000 ? `${digits(ms / 1000)} s` : duration(ms);
}

export function micros(us) {
  return quantile(us / 1000);
}

function entityOf({ user, client_id: clientId }) {
  if (user === ANONYMOUS && clientId) return { "client-id": clientId };
  return clientId === null ? { user } : { user, "client-id": clientId };
}

function who(row, td) {
  once(td, entityKey(entityOf(row)), () => entityChips(entityOf(row)));
}

function number(label, key, format = group, more = {}) {
  return { label, size: "small", num: true, cell: (row, td) => setText(td, row[key] === null ? "–" : format(row[key])), ...more };
}

function moment(at, td) {
  once(td, at, () => h("span.two", { title: at }, h("time", { datetime: at }, day(at)), h("span", clock(at))));
}

/** `onwho(row)` filters the whole page by this tenant. */
export function usageSection({ query, onsort, onwho }) {
  return new Section({
    id: "usage",
    path: "/api/v1/insights/usage",
    label: "Usage per tenant",
    keyOf: (row) => `${row.user} ${row.client_id}`,
    none: "No client was active on these days.",
    missing: "No usage yet.",
    query,
    onsort,
    columns: [
      { label: "Tenant", size: "who", whole: "bare", cell: (row, td) => once(td, entityKey(entityOf(row)), () => h("button.who-button", { type: "button", title: "Show only this tenant", onclick: () => onwho(row) }, entityChips(entityOf(row)))) },
      number("Produced", "produce_bytes", bytes, { sort: "produce_bytes" }),
      number("Fetched", "fetch_bytes", bytes, { sort: "fetch_bytes" }),
      number("Requests", "requests", group, { sort: "requests" }),
      number("Handler time", "handler_us", (us) => shortDuration(us / 1000), { sort: "handler_us" }),
      number("Throttled", "throttle_ms", (ms) => (ms ? shortDuration(ms) : "–"), { sort: "throttle_ms" }),
      number("Errors", "errors", (count) => (count ? group(count) : "–"), { sort: "errors" }),
      number("Client time", "minutes", (minutes) => duration(minutes * 60_000)),
    ],
  });
}

export function throttlingSection() {
  return new Section({
    id: "throttling",
    path: "/api/v1/insights/throttling",
    label: "Throttled clients and rules",
    keyOf: (row) => JSON.stringify([row.kind, row.rule, row.user, row.client_id]),
    none: "No client was throttled on these days.",
    missing: "No throttles recorded yet: the table does not exist.",
    columns: [
      { label: "Client", size: "who", whole: "bare", cell: who },
      { label: "Kind", size: "small", cell: ({ kind }, td) => once(td, kind, () => h("span.tag", { data: { kind } }, kind)) },
      { label: "Rule", size: "rule", whole: true, cell: ({ rule }, td) => once(td, entityKey(rule), () => ruleLink(rule)) },
      number("Times", "throttles"),
      number("Total", "throttle_ms", shortDuration),
      number("Longest", "longest_ms", shortDuration),
      { label: "Last", size: "when", cell: ({ last_at: at }, td) => moment(at, td) },
    ],
  });
}

export function latencySection({ query }) {
  return new Section({
    id: "latency",
    path: "/api/v1/insights/latency",
    label: "Duration of request phases",
    keyOf: (row) => `${row.api} ${row.phase}`,
    none: "No requests on these days.",
    missing: "No requests recorded yet: the table does not exist.",
    query,
    columns: [
      { label: "API", size: "rule", cell: ({ api }, td) => once(td, api, () => h("b.name", api)) },
      { label: "Phase", size: "small", cell: ({ phase }, td) => setText(td, phase.replaceAll("_", " ")) },
      number("Requests", "timed"),
      number("p50", "p50_us", micros),
      number("p95", "p95_us", micros),
      number("Worst p99", "p99_us", micros),
      number("Longest", "max_us", micros),
    ],
  });
}

export function utilisationSection() {
  return new Section({
    id: "utilisation",
    path: "/api/v1/insights/utilisation",
    label: "Utilisation of limits",
    keyOf: (row) => JSON.stringify([row.key, row.rule, row.sharer]),
    none: "No limit was in use on these days.",
    missing: "No limit used yet: the table does not exist.",
    columns: [
      { label: "Rule", size: "rule", whole: "bare", cell: ({ rule }, td) => once(td, entityKey(rule), () => ruleLink(rule)) },
      { label: "Used by", size: "who", whole: true, cell: ({ sharer }, td) => once(td, JSON.stringify(sharer), () => h("span.name", sharer.filter((name) => name !== null).join(", "))) },
      { label: "Limit", size: "small", num: true, cell: ({ key, bound }, td) => once(td, `${key} ${bound}`, () => h("span.two", bound === null ? "–" : rate(key, bound), h("span", KEYS[key]?.label ?? key))) },
      { label: "Peak", size: "small", num: true, cell: ({ peak }, td) => once(td, String(peak), () => fullness(peak)) },
      number("Mean", "mean", percent),
      { label: "Above 80 %", size: "small", num: true, cell: ({ minutes_nearly: nearly, minutes }, td) => setText(td, `${group(nearly)} of ${group(minutes)} min`) },
      number("At limit", "minutes_at_limit", (minutes) => `${group(minutes)} min`),
    ],
  });
}

function fullness(peak) {
  const bar = h("i");
  bar.style.transform = `scaleX(${Math.min(1, peak ?? 0)})`;
  const level = peak > 1 ? "urgent" : peak > 0.8 ? "watch" : "good";
  return h("span", h("b", peak === null ? "–" : percent(peak)), h("span.bar", { data: { level } }, bar));
}

export function stormsSection() {
  return new Section({
    id: "storms",
    path: "/api/v1/insights/storms",
    label: "Connection storms, newest first",
    keyOf: (row) => JSON.stringify([row.at, row.node, row.listener, row.address]),
    none: "No storms on these days.",
    missing: "No connections recorded yet.",
    columns: [
      { label: "When", size: "when", cell: ({ at }, td) => moment(at, td) },
      { label: "Address", size: "who", whole: true, cell: ({ address }, td) => once(td, address, () => h("a.name", { href: `/ip-quotas?${new URLSearchParams({ q: address })}` }, address)) },
      { label: "Listener", size: "small", cell: ({ listener }, td) => setText(td, listener) },
      number("Attempts", "attempts"),
      number("Accepted", "opened"),
      number("Throttled", "throttled"),
      number("Rejected", "refused"),
    ],
  });
}

export function lostSection() {
  return new Section({
    id: "lost",
    path: "/api/v1/insights/lost",
    label: "Lost events by topic, the most first",
    keyOf: (row) => JSON.stringify([row.topic, row.cluster]),
    none: "No events were lost on these days.",
    missing: "No events have been lost.",
    columns: [
      { label: "Topic", size: "who", whole: true, cell: ({ topic }, td) => setText(td, topic) },
      { label: "Cluster", size: "who", cell: ({ cluster }, td) => setText(td, cluster ?? "unknown") },
      number("Events", "records"),
      number("Gaps", "gaps"),
      { label: "First", size: "when", cell: ({ first_at: at }, td) => moment(at, td) },
      { label: "Last", size: "when", cell: ({ last_at: at }, td) => moment(at, td) },
    ],
  });
}

export function namesSection() {
  return new Section({
    id: "names",
    path: "/api/v1/insights/shared-client-ids",
    label: "Shared client ids, newest first",
    keyOf: (row) => `${row.day} ${row.client_id}`,
    none: "No client id was shared on these days.",
    missing: "No connections recorded yet.",
    columns: [
      { label: "Client id", size: "who", whole: "bare", cell: ({ client_id: id }, td) => once(td, id, () => entityChips({ "client-id": id })) },
      { label: "Day", size: "when", cell: ({ day: on }, td) => setText(td, on) },
      { label: "Users", size: "rule", whole: true, cell: (row, td) => once(td, JSON.stringify(row.principals), () => h("span.name", { data: { shared: String(row.is_shared_by_principals) } }, row.principals.join(", "))) },
      { label: "Addresses", size: "rule", whole: true, cell: ({ addresses }, td) => once(td, JSON.stringify(addresses), () => h("span.name", addresses.join(", "))) },
      number("Connections", "connections"),
    ],
  });
}

const MEASURES = { produce_bytes: ["Produced", bytes], fetch_bytes: ["Fetched", bytes], requests: ["Requests", group], throttle_ms: ["Throttled", shortDuration], errors: ["Errors", group] };

export function offendersSection() {
  return new Section({
    id: "offenders",
    path: "/api/v1/insights/offenders",
    label: "Top ten clients of each day, newest first",
    keyOf: (row) => JSON.stringify([row.day, row.by, row.rank]),
    none: "No client was active on these days.",
    missing: "No data yet: the table covers complete days only.",
    columns: [
      { label: "Client", size: "who", whole: "bare", cell: who },
      { label: "Day", size: "when", cell: ({ day: on }, td) => setText(td, on) },
      { label: "By", size: "small", cell: ({ by }, td) => setText(td, MEASURES[by]?.[0] ?? by) },
      number("Rank", "rank"),
      { label: "Amount", size: "small", num: true, cell: ({ by, total }, td) => once(td, `${by} ${total}`, () => h("span", { title: group(total) }, (MEASURES[by]?.[1] ?? group)(total))) },
      number("Share", "share", percent),
    ],
  });
}

export function complianceSection() {
  return new Section({
    id: "throttle-compliance",
    path: "/api/v1/insights/throttle-compliance",
    label: "Throttle compliance of clients, the least compliant first",
    keyOf: (row) => JSON.stringify([row.day, row.user, row.client_id, row.software_name, row.software_version]),
    none: "No client was throttled on these days.",
    missing: "No throttles recorded yet: the table does not exist.",
    columns: [
      { label: "Client", size: "who", whole: "bare", cell: who },
      { label: "Day", size: "when", cell: ({ day: on }, td) => setText(td, on) },
      { label: "Software", size: "rule", whole: true, cell: (row, td) => once(td, `${row.software_name} ${row.software_version}`, () => h("span.name", [row.software_name, row.software_version].filter(Boolean).join(" ") || "unknown")) },
      { label: "Complies", size: "small", cell: ({ obeys }, td) => once(td, String(obeys), () => h("span.tag", { data: { obeys: String(obeys) } }, { true: "yes", false: "no" }[obeys] ?? "unknown")) },
      number("Throttles", "throttles"),
      number("Total", "throttle_ms", shortDuration),
      number("Waited", "waited"),
      number("Sent early", "sent_early"),
    ],
  });
}

/** A value whose unit is defined by the metric's name. */
function plain(value) {
  return Number.isInteger(value) ? group(value) : String(Number(value.toPrecision(4)));
}

export function clientMetricsSection() {
  return new Section({
    id: "client-metrics",
    path: "/api/v1/insights/client-metrics",
    label: "Metrics that clients pushed",
    keyOf: (row) => JSON.stringify([row.metric, row.shape, row.user, row.client_id]),
    none: "No client pushed metrics on these days.",
    missing: "No client has pushed metrics yet. Add a subscription on the Client metrics page.",
    columns: [
      { label: "Metric", size: "who", whole: true, cell: ({ metric, shape }, td) => once(td, `${metric} ${shape}`, () => h("span.two", h("span.name", metric), h("span", shape))) },
      { label: "Client", size: "who", whole: "bare", cell: who },
      number("Instances", "instances"),
      number("Minimum", "least", plain),
      number("Mean", "mean", plain),
      number("Maximum", "most", plain),
      number("Increase", "increase", plain),
      number("Timed", "counted"),
      { label: "Last", size: "when", cell: ({ last_at: at }, td) => moment(at, td) },
    ],
  });
}
