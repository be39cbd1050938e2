// The tables of the Insights page: columns and empty states.

import { bar, copyable, h, limitLevel, setText } from "./dom.js";
import { entityChips, entityKey, ruleLink } from "./entity.js";
import { client, clientOf, micros, money, number, placed, shortDuration, software, text, time } from "./insight_cells.js";
import { Section } from "./insight_section.js";
import { once } from "./table.js";
import { bytes, duration, group, limitLabel, percent, rate } from "./units.js";

/** `onwho(row)` filters the whole page by this tenant. */
function tenantColumn(onwho) {
  const button = (row) => h("button.who-button", { type: "button", title: "Show only this tenant", onclick: () => onwho(row) }, entityChips(clientOf(row)));
  return { label: "Tenant", sort: "user", size: "who", whole: "bare", cell: (row, td) => once(td, entityKey(clientOf(row)), () => button(row)) };
}

/** A section with a row for each tenant, from the table of usage. */
function tenantSection({ onwho, columns, ...more }) {
  return new Section({
    keyOf: (row) => `${row.user} ${row.client_id}`,
    none: "No client was active on these days.",
    missing: "No usage yet.",
    columns: [tenantColumn(onwho), ...columns],
    ...more,
  });
}

export function usageSection({ query, onwho }) {
  return tenantSection({
    id: "usage",
    label: "Usage per tenant",
    query,
    onwho,
    columns: [
      number("Produced", "produce_bytes", bytes),
      number("Fetched", "fetch_bytes", bytes),
      number("Requests", "requests"),
      number("Handler time", "handler_us", (us) => shortDuration(us / 1000)),
      number("Throttled", "throttle_ms", (ms) => (ms ? shortDuration(ms) : "–")),
      number("Errors", "errors", (count) => (count ? group(count) : "–")),
      number("Client time", "minutes", (minutes) => duration(minutes * 60_000)),
    ],
  });
}

export function throttlingSection({ query }) {
  return new Section({
    id: "throttling",
    label: "Throttled clients and rules",
    keyOf: (row) => JSON.stringify([row.cluster, row.kind, row.rule, row.user, row.client_id]),
    none: "No client was throttled on these days.",
    missing: "No throttles recorded yet: the table does not exist.",
    query,
    columns: [
      client,
      { label: "Kind", sort: "kind", size: "small", cell: ({ kind }, td) => once(td, kind, () => h("span.tag", { data: { kind } }, kind)) },
      { label: "Rule", sort: "rule", size: "rule", whole: true, cell: ({ rule }, td) => once(td, entityKey(rule), () => ruleLink(rule)) },
      number("Times", "throttles"),
      number("Total", "throttle_ms", shortDuration),
      number("Longest", "longest_ms", shortDuration),
      time("Last", "last_at"),
    ],
  });
}

export function latencySection({ query }) {
  return new Section({
    id: "latency",
    label: "Duration of request phases",
    keyOf: (row) => `${row.api} ${row.phase}`,
    none: "No requests on these days.",
    missing: "No requests recorded yet: the table does not exist.",
    query,
    columns: [
      { label: "API", sort: "api", size: "rule", cell: ({ api }, td) => once(td, api, () => h("b.name", api)) },
      text("Phase", "phase", { cell: ({ phase }, td) => setText(td, phase.replaceAll("_", " ")) }),
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
    label: "Utilisation of limits",
    keyOf: (row) => JSON.stringify([row.cluster, row.key, row.rule, row.sharer]),
    none: "No limit was in use on these days.",
    missing: "No limit used yet: the table does not exist.",
    columns: [
      { label: "Rule", sort: "rule", size: "rule", whole: "bare", cell: (row, td) => placed(row, td, entityKey(row.rule), () => ruleLink(row.rule)) },
      { label: "Used by", sort: "sharer", size: "who", whole: true, cell: ({ sharer }, td) => once(td, JSON.stringify(sharer), () => h("span.name", sharer.filter((name) => name !== null).join(", "))) },
      { label: "Limit", sort: "key", size: "small", num: true, cell: ({ key, bound }, td) => once(td, `${key} ${bound}`, () => h("span.two", bound === null ? "–" : rate(key, bound), h("span", limitLabel(key)))) },
      { label: "Peak", sort: "peak", size: "small", num: true, cell: ({ peak }, td) => once(td, String(peak), () => fullness(peak)) },
      number("Mean", "mean", percent),
      { label: "Above 80 %", sort: "minutes_nearly", size: "small", num: true, cell: ({ minutes_nearly: nearly, minutes }, td) => setText(td, `${group(nearly)} of ${group(minutes)} min`) },
      number("At limit", "minutes_at_limit", (minutes) => `${group(minutes)} min`),
    ],
  });
}

function fullness(peak) {
  return h("span", h("b", peak === null ? "–" : percent(peak)), bar(peak ?? 0, limitLevel(peak)));
}

export function stormsSection() {
  return new Section({
    id: "storms",
    label: "Connection storms, newest first",
    keyOf: (row) => JSON.stringify([row.at, row.cluster, row.node, row.listener, row.address]),
    none: "No storms on these days.",
    missing: "No connections recorded yet.",
    columns: [
      time("When", "at"),
      { label: "Address", sort: "address", size: "who", whole: true, cell: (row, td) => placed(row, td, row.address, () => h("a.name", { href: `/ip-quotas?${new URLSearchParams({ q: row.address })}` }, row.address)) },
      text("Listener", "listener"),
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
    label: "Lost events by topic, the most first",
    keyOf: (row) => JSON.stringify([row.topic, row.cluster]),
    none: "No events were lost on these days.",
    missing: "No events have been lost.",
    columns: [
      text("Topic", "topic", { size: "who", whole: true }),
      { label: "Cluster", sort: "cluster", size: "who", cell: ({ cluster }, td) => setText(td, cluster ?? "unknown") },
      number("Events", "records"),
      number("Gaps", "gaps"),
      time("First", "first_at"),
      time("Last", "last_at"),
    ],
  });
}

export function namesSection() {
  return new Section({
    id: "names",
    path: "/api/v1/insights/shared-client-ids",
    label: "Shared client ids, newest first",
    keyOf: (row) => JSON.stringify([row.day, row.cluster, row.client_id]),
    none: "No client id was shared on these days.",
    missing: "No connections recorded yet.",
    columns: [
      { label: "Client id", sort: "client_id", size: "who", whole: "bare", cell: (row, td) => placed(row, td, row.client_id, () => entityChips({ "client-id": row.client_id })) },
      text("Day", "day", { size: "when" }),
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
    label: "Top ten clients of each day, newest first",
    keyOf: (row) => JSON.stringify([row.day, row.cluster, row.by, row.rank]),
    none: "No client was active on these days.",
    missing: "No data yet: the table covers complete days only.",
    columns: [
      client,
      text("Day", "day", { size: "when" }),
      text("By", "by", { cell: ({ by }, td) => setText(td, MEASURES[by]?.[0] ?? by) }),
      number("Rank", "rank"),
      { label: "Amount", sort: "total", size: "small", num: true, cell: ({ by, total }, td) => once(td, `${by} ${total}`, () => h("span", { title: group(total) }, (MEASURES[by]?.[1] ?? group)(total))) },
      number("Share", "share", percent),
    ],
  });
}

/** A value whose unit is defined by the metric's name. */
function plain(value) {
  return Number.isInteger(value) ? group(value) : String(Number(value.toPrecision(4)));
}

export function clientMetricsSection({ query }) {
  return new Section({
    id: "client-metrics",
    label: "Metrics that clients pushed",
    keyOf: (row) => JSON.stringify([row.metric, row.shape, row.user, row.client_id]),
    none: "No client pushed metrics on these days, or their rows do not tell the chosen cluster.",
    missing: "No client has pushed metrics yet. Add a subscription on the Client metrics page.",
    query,
    columns: [
      { label: "Metric", sort: "metric", size: "who", whole: true, cell: ({ metric, shape }, td) => once(td, `${metric} ${shape}`, () => h("span.two", h("span.name", metric), h("span", shape))) },
      client,
      number("Instances", "instances"),
      number("Minimum", "least", plain),
      number("Mean", "mean", plain),
      number("Maximum", "most", plain),
      number("Increase", "increase", plain),
      number("Timed", "counted"),
      time("Last", "last_at"),
    ],
  });
}

export function costSection({ query, onwho }) {
  let currency = "";
  const amount = (label, key) => number(label, key, (value) => money(value, currency));
  return tenantSection({
    id: "cost",
    label: "Cost per tenant",
    query,
    onwho,
    columns: [
      number("Produced", "produce_bytes", bytes),
      amount("Cost of it", "produced_cost"),
      number("Fetched", "fetch_bytes", bytes),
      amount("Cost of it", "fetched_cost"),
      amount("Total cost", "cost"),
      number("Share", "share", percent),
    ],
    above: (answer) => {
      currency = answer.currency;
      return prices(answer);
    },
  });
}

function prices({ price_per_gb_produced: produced, price_per_gb_fetched: fetched, currency }) {
  if (produced === 0 && fetched === 0) {
    return h("div.notice", { data: { kind: "warn" } },
      h("p", "There are no prices. Set them in the broker’s configuration and restart it:"),
      copyable("insights.price.per.gb.produced=0.05\ninsights.price.per.gb.fetched=0.02\ninsights.price.currency=EUR", "Example of prices"));
  }
  return h("p.quiet", `A gigabyte (10⁹ bytes) costs ${money(produced, currency)} produced and ${money(fetched, currency)} fetched.`);
}

const VERDICTS = { true: "yes", false: "no" };

export function complianceSection({ query }) {
  return new Section({
    id: "throttle-compliance",
    path: "/api/v1/insights/throttle-compliance:summary",
    label: "Throttle time and compliance of clients, the longest throttled first",
    keyOf: (row) => JSON.stringify([row.cluster, row.user, row.client_id, row.software_name, row.software_version]),
    none: "No client was throttled on these days.",
    missing: "No throttles recorded yet: the table does not exist.",
    query,
    columns: [
      client,
      { label: "Software", sort: "software_name", size: "rule", whole: true, cell: (row, td) => once(td, software(row), () => h("span.name", software(row))) },
      { label: "Complies", sort: "obeys", size: "small", cell: ({ obeys }, td) => once(td, String(obeys), () => h("span.tag", { data: { obeys: String(obeys) } }, VERDICTS[obeys] ?? "unknown")) },
      number("Throttles", "throttles"),
      number("Total", "throttle_ms", shortDuration),
      number("Waited", "waited"),
      number("Sent early", "sent_early"),
      { label: "Early share", sort: "early_share", size: "small", num: true, cell: ({ early_share: share }, td) => once(td, String(share), () => earlyShare(share)) },
    ],
  });
}

function earlyShare(share) {
  if (share === null) return "–";
  const level = share >= 0.5 ? "urgent" : share > 0.125 ? "watch" : "good";
  return h("span", h("b", percent(share)), bar(share, level));
}

const ATTRIBUTIONS = {
  several: ["several versions", "These clients used several versions on the same day"],
  unknown: ["unknown", "No event told the software of these clients: they have not closed a connection, been throttled or pushed metrics"],
};

export function softwareSection({ query, shown }) {
  return new Section({
    id: "software",
    path: "/api/v1/insights/latency-by-software",
    label: "Duration of requests by client version",
    keyOf: (row) => JSON.stringify([row.software_name, row.software_version, row.attribution, row.api]),
    none: "No timed requests on these days.",
    missing: "No data yet: the pipeline computes this table for whole days, once a client has closed a connection, been throttled or pushed metrics.",
    query,
    shown,
    columns: [
      { label: "Software", sort: "software_name", size: "who", whole: true, cell: (row, td) => once(td, `${software(row)} ${row.attribution}`, () => named(row)) },
      text("API", "api", { size: "rule" }),
      number("Clients", "clients"),
      number("Requests", "timed"),
      number("p50", "p50_us", micros),
      number("p95", "p95_us", micros),
      number("Worst p99", "p99_us", micros),
      number("Longest", "max_us", micros),
    ],
  });
}

function named(row) {
  const [label, title] = ATTRIBUTIONS[row.attribution] ?? [];
  if (!label) return h("b.name", software(row));
  return h("span.two", { title }, h("b.name", row.software_name || label), row.software_name && h("span", label));
}
