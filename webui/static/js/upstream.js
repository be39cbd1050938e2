// Upstream: the cluster behind a gateway, its nodes, latency upstream and here, and the gateways with their shares.

import { get, post } from "./api.js";
import { Details, smallTable } from "./details.js";
import { bar, empty, h, needs, replace, setText, skeleton } from "./dom.js";
import { entityChips } from "./entity.js";
import { Listing } from "./listing.js";
import { SOURCES } from "./setting_panel.js";
import { startLive, toast } from "./shell.js";
import { once, Table } from "./table.js";
import { ago, bytesPerSecond, clock, count, digits, group, percent, quantile, rate } from "./units.js";

const GOOD = ["connected", "connecting"];
const REMEDIES = {
  unreachable: "Check that the nodes run and that this machine reaches them.",
  "credentials refused": "Check upstream.sasl.mechanism and upstream.sasl.jaas.config, or its file.",
  "TLS failed": "Check upstream.ssl.truststore.location and the names in the nodes’ certificates.",
  "another cluster": "The gateway forwards nothing to it. Correct the addresses, or set upstream.cluster.id if the cluster was replaced intentionally.",
};

function levelOf(condition) {
  return condition === "connected" ? "good" : condition === "connecting" ? "watch" : "urgent";
}

function whenCell(td, iso) {
  setText(td, ago(iso));
  td.title = `${new Date(iso).toLocaleString()} (${iso})`;
}

const nodes = new Table({
  label: "Nodes of the upstream cluster",
  keyOf: (row) => String(row.node_id),
  columns: [
    { label: "Node", size: "node", whole: "bare", cell: nodeCell },
    { label: "State", size: "state", whole: true, cell: stateCell },
    { label: "Address for clients", size: "address", whole: true, cell: addressCell },
    { label: "Since", size: "since", cell: (row, td) => whenCell(td, row.since) },
    { label: "Connections", size: "count", num: true, cell: (row, td) => setText(td, group(row.connections)) },
    { label: "In", size: "rate", num: true, cell: (row, td) => rateCell(td, row.bytes_in_per_s, row.bytes_in) },
    { label: "Out", size: "rate", num: true, cell: (row, td) => rateCell(td, row.bytes_out_per_s, row.bytes_out) },
    { label: "Latency", size: "rate", num: true, cell: (row, td) => setText(td, row.latency_ms === null ? "–" : quantile(row.latency_ms)) },
  ],
});

function nodeCell(row, td) {
  once(td, JSON.stringify([row.address, row.rack]), () => settings.opener(row, h("span.two",
    h("b", `Node ${row.node_id}`),
    h("span", h("span.mono.name", row.address), row.rack && ", rack ", row.rack && h("span.name", row.rack)))));
}

/** The settings of a node that are not at their defaults, and the number of the others. */
const settings = new Details({
  load: ({ node_id: id }) => get(`/api/v1/upstream/nodes/${id}/configs?limit=1000`),
  draw: ({ items, total }) => {
    const own = items.filter(({ source }) => source !== "default");
    return [
      smallTable("Settings of the node", [["Setting", false], ["Value", false], ["Source", false]], own.map(({ name, value, sensitive, source }) => [
        h("code", name), sensitive ? h("span.quiet", "(secret)") : h("span.name.mono", value ?? ""), source === "dynamic-broker" ? "this node, while it ran" : SOURCES[source],
      ])),
      h("p.quiet.small", `${count(total - own.length, "other setting")} at their defaults`),
    ];
  },
});
let known = [];
settings.follow({ table: nodes, show: () => fill("nodes", nodes, known, NO_NODES, settings.below) });

function stateCell(row, td) {
  once(td, JSON.stringify([row.condition, row.error]), () => h("span.two",
    h("span", h("span.tag", { data: { level: levelOf(row.condition) } }, row.condition)),
    row.error && h("span.name", row.error)));
}

function addressCell(row, td) {
  once(td, JSON.stringify(row.addresses), () => h("span.addresses", row.addresses.map(address)));
}

function address({ listener, address: at, open }) {
  const where = at ? h("span.mono.name", at) : h("span.missing", "no port: gateway.port.range is too short");
  return h("span", h("span.quiet.small.name", listener), " ", where, at && !open ? h("span.missing", " not open") : null);
}

function rateCell(td, perSecond, total) {
  setText(td, bytesPerSecond(perSecond));
  td.title = `${group(total)} bytes since the start`;
}

const latencies = new Table({
  label: "Latency of the upstream cluster by API",
  keyOf: (row) => row.api,
  columns: [
    { label: "Request", size: "api", whole: "bare", cell: (row, td) => once(td, row.api, () => h("span.two", h("b", row.api), row.waits && h("span", "includes long polling"))) },
    { label: "Requests", size: "count", num: true, cell: (row, td) => setText(td, group(row.requests)) },
    { label: "Upstream p50", size: "quantile", num: true, cell: (row, td) => setText(td, row.p50_ms === null ? "–" : quantile(row.p50_ms)) },
    { label: "Upstream p99", size: "quantile", num: true, cell: (row, td) => setText(td, row.p99_ms === null ? "–" : quantile(row.p99_ms)) },
  ],
});

const racks = new Table({
  label: "Traffic by rack",
  keyOf: (row) => JSON.stringify([row.client_rack, row.node_rack]),
  columns: [
    { label: "Clients in rack", size: "name", whole: "bare", cell: (row, td) => rackCell(td, row.client_rack) },
    { label: "Nodes in rack", size: "name", whole: "bare", cell: (row, td) => rackCell(td, row.node_rack) },
    { label: "Way", size: "state", cell: (row, td) => setText(td, wayOf(row)) },
    { label: "Connections", size: "count", num: true, cell: (row, td) => setText(td, group(row.connections)) },
    { label: "In", size: "rate", num: true, cell: (row, td) => rateCell(td, row.bytes_in_per_s, row.bytes_in) },
    { label: "Out", size: "rate", num: true, cell: (row, td) => rateCell(td, row.bytes_out_per_s, row.bytes_out) },
  ],
});

function rackCell(td, rack) {
  once(td, rack, () => (rack ? h("b.name", rack) : h("span.quiet", "none")));
}

function wayOf({ client_rack: client, node_rack: node }) {
  return !client || !node ? "unknown" : client === node ? "own rack" : "across racks";
}

/** The part of the bytes to clients that comes from their own rack, where both racks are known. */
function ownRack(rows) {
  const known = rows.filter((row) => wayOf(row) !== "unknown");
  const sum = (some) => some.reduce((total, row) => total + row.bytes_out, 0);
  const all = sum(known);
  return all ? `Since the start, ${percent(sum(known.filter((row) => wayOf(row) === "own rack")) / all)} of the bytes to clients came from their own rack` : "";
}

const gateways = new Table({
  label: "Gateways of the upstream cluster",
  keyOf: (row) => row.gateway_id,
  columns: [
    { label: "Gateway", size: "name", whole: "bare", cell: (row, td) => once(td, JSON.stringify([row.gateway_id, row.address]), () => h("span.two", h("b.name", row.gateway_id), row.address && h("span.mono.name", row.address))) },
    { label: "Connections", size: "count", num: true, cell: (row, td) => trafficCell(td, row, ({ connections }) => group(connections)) },
    { label: "Throttled", size: "count", num: true, cell: (row, td) => trafficCell(td, row, ({ throttled }) => group(throttled)) },
    { label: "In", size: "rate", num: true, cell: (row, td) => trafficCell(td, row, (traffic) => bytesPerSecond(traffic.bytes_in_per_s)) },
    { label: "Out", size: "rate", num: true, cell: (row, td) => trafficCell(td, row, (traffic) => bytesPerSecond(traffic.bytes_out_per_s)) },
    { label: "Requests", size: "rate", num: true, cell: (row, td) => trafficCell(td, row, (traffic) => `${digits(traffic.requests_per_s)}/s`) },
    { label: "Last heard", size: "heard", num: true, cell: (row, td) => (row.heard_at === null ? setText(td, "this gateway") : whenCell(td, row.heard_at)) },
  ],
});

function trafficCell(td, { traffic }, text) {
  setText(td, traffic === null ? "–" : text(traffic));
}

/** The sums of all gateways whose traffic is known. */
function sumsOf(rows) {
  const known = rows.filter(({ traffic }) => traffic !== null);
  if (known.length < 2) return "Gateways that share limits";
  const sum = (name) => known.reduce((total, { traffic }) => total + traffic[name], 0);
  return `${known.length} gateways together: ${count(sum("connections"), "connection")}, ${group(sum("throttled"))} throttled, ${bytesPerSecond(sum("bytes_in_per_s"))} in, ${bytesPerSecond(sum("bytes_out_per_s"))} out, ${digits(sum("requests_per_s"))} requests/s`;
}

const NO_NODES = empty("upstream", "No node is known", "The gateway has not found the upstream cluster yet.");
const NO_REQUESTS = empty("upstream", "No request was forwarded yet", "Clients that connect to the gateway’s address appear here.");
const ALONE = empty("upstream", "No limits are shared", "Each gateway applies its limits on its own, and shows only itself. With quota.scope=cluster, gateways share their limits, and each console shows all of them.");

function fill(id, table, rows, nothing, below = () => null) {
  const box = document.getElementById(id);
  table.show(rows, below);
  const shown = rows.length ? table.element : nothing;
  if (box.firstChild !== shown) replace(box, shown);
}

function showCluster(upstream) {
  const { condition, error } = upstream;
  const tag = document.getElementById("condition");
  tag.dataset.level = levelOf(condition);
  setText(tag, condition);
  const notice = document.getElementById("error");
  notice.hidden = GOOD.includes(condition);
  setText(notice, notice.hidden ? "" : `${error ? `${error}. ` : ""}${REMEDIES[condition] ?? ""}`);
  const facts = document.getElementById("facts");
  const different = upstream.expected_id && upstream.cluster_id !== upstream.expected_id;
  const shown = [
    ["Cluster id", h("span.mono.name", upstream.cluster_id || "unknown")],
    different && ["Expected id", h("span.mono.name", upstream.expected_id)],
    ["Since", h("span", { title: upstream.since }, ago(upstream.since))],
    ["Nodes", upstream.nodes.length ? `${group(upstream.nodes.filter((node) => node.condition === "connected").length)} of ${count(upstream.nodes.length, "node")} connected` : "none known"],
    ["Bootstrap servers", h("span.mono.name", upstream.bootstrap_servers.join(", "))],
    ...upstream.unwritten.map(({ topic, error }) => [`Events for ${topic}`, h("span.missing", `not written: ${error}`)]),
    ...upstream.loopback.filter(({ remote_connections: remote }) => remote).map(({ listener, address: at, remote_connections: remote }) => [`Listener ${listener}`, h("span.missing", `advertises ${at}, which ${count(remote, "connection")} from other machines cannot use`)]),
  ].filter(Boolean);
  once(facts, JSON.stringify(shown.map(([name, value]) => [name, value.textContent ?? value])), () => shown.map(([name, value]) => h("div", h("dt", name), h("dd", value))));
}

const DRAIN_LEVELS = { serving: "good", draining: "watch", drained: "urgent" };

function drainText({ state, connections, at_first: atFirst, to, since, ends }) {
  const where = to.length ? `Clients go to ${to.join(", ")}.` : "No other gateway is known to its clients.";
  if (state === "draining") return `${count(connections, "connection")} of ${group(atFirst)} left, until ${clock(Date.parse(ends))} at the latest. ${where}`;
  if (state === "drained") return `It has had no clients since ${clock(Date.parse(ends))}; the drain began at ${clock(Date.parse(since))}. It serves again after a restart.`;
  return "It serves clients. Drain it before it is stopped for long: its listeners close, and its clients move to the other gateways, one after the other.";
}

function showDrain(drain) {
  const tag = document.getElementById("drain-state");
  tag.dataset.level = DRAIN_LEVELS[drain.state];
  setText(tag, drain.state);
  setText(document.getElementById("drain-text"), drainText(drain));
  const box = document.getElementById("drain-buttons");
  if (drain.state !== "serving") replace(box);
  else if (!box.firstChild) offerDrain(box);
}

function offerDrain(box) {
  const open = needs("admin", h("button", { type: "button", id: "drain", onclick: () => askToDrain(box) }, "Drain this gateway"));
  replace(box, open);
  return open;
}

/** Asks for confirmation: only a restart takes it back. */
function askToDrain(box) {
  const sure = h("button.danger", { type: "button", onclick: () => drainNow(box) }, "Drain now");
  replace(box, sure, h("button", { type: "button", onclick: () => offerDrain(box).focus() }, "Keep serving"));
  sure.focus();
}

async function drainNow(box) {
  try {
    showDrain(await post("/api/v1/gateway/drain"));
    toast("The gateway drains.");
  } catch (problem) {
    toast(problem.message, { kind: "bad" });
    offerDrain(box);
  }
}

function show({ upstream, drain, gateways: all }) {
  if (!upstream) return;
  showCluster(upstream);
  showDrain(drain);
  known = upstream.nodes;
  settings.list.show();
  document.getElementById("rack-card").hidden = upstream.racks.length === 0;
  racks.show(upstream.racks);
  setText(document.getElementById("own-rack"), ownRack(upstream.racks));
  setText(document.getElementById("turn"), upstream.turn_ms === null ? "The gateway is idle." : `Latency of this gateway’s event loop: ${quantile(upstream.turn_ms)} on average.`);
  fill("latencies", latencies, upstream.latencies.filter(({ requests }) => requests), NO_REQUESTS);
  fill("gateways", gateways, all, ALONE);
  setText(document.getElementById("sums"), sumsOf(all));
  document.getElementById("shares").hidden = all.length === 0;
}

const shares = document.getElementById("shares") && {
  topic: "gateway-shares",
  label: "Shares of each limit",
  nouns: ["share", "shares"],
  keyOf: (row) => JSON.stringify([row.gateway_id, row.entity, row.key]),
  sort: "entity",
  rising: ["entity", "gateway"],
  none: () => empty("quotas", "No limit is in use", "A limit that a client uses is divided among the gateways."),
  columns: [
    { label: "Rule", sort: "entity", size: "limit", whole: "bare", cell: (row, td) => once(td, JSON.stringify([row.entity, row.key]), () => h("span.two", Object.keys(row.entity).length ? entityChips(row.entity) : h("span", "all clients"), h("span", row.key))) },
    { label: "Gateway", sort: "gateway", size: "name", cell: (row, td) => once(td, row.gateway_id, () => h("span.name", row.gateway_id)) },
    { label: "Demand", sort: "demand", size: "rate", num: true, cell: (row, td) => setText(td, rate(row.key, row.demand, row.limit)) },
    { label: "Share", sort: "share", size: "share", num: true, cell: shareCell },
    { label: "Limit", sort: "limit", size: "whole", num: true, cell: (row, td) => setText(td, rate(row.key, row.limit)) },
  ],
  topics: { upstream: show },
};

function shareCell(row, td) {
  const part = row.limit ? row.share / row.limit : 0;
  once(td, `${row.share} ${row.limit}`, () => h("span.share", h("span", rate(row.key, row.share, row.limit), h("span.quiet", ` ${percent(part)}`)), bar(part)));
}

if (shares) {
  replace(document.getElementById("racks"), racks.element);
  for (const id of ["nodes", "latencies", "gateways"]) replace(document.getElementById(id), skeleton(3));
  new Listing(shares).start();
} else {
  startLive([], {}).open();
}
