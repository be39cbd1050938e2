// Overview: the broker's current state, the last minutes, and remaining capacity.

import { get } from "./api.js";
import { Sparkline } from "./chart.js";
import { Charts, KEPT } from "./charts.js";
import { copyable, copyButton, failed, h, replace, setText } from "./dom.js";
import { startLive, UrlState } from "./shell.js";
import { showThrottled, showNear } from "./shortlists.js";
import { showHealth, showPhases, showQueues } from "./vitals.js";
import { bytesPerSecond, count, digits, duration, group } from "./units.js";

// A longer distance between two samples means that the stream was interrupted: reload the history.
const MISSED_MS = 2500;
const SHOWN_IN_TILES = 120;

const TILES = [
  { key: "bytes_in", label: "Bytes in", tone: "in", format: (value) => bytesPerSecond(value) },
  { key: "bytes_out", label: "Bytes out", tone: "out", format: (value) => bytesPerSecond(value) },
  { key: "requests", label: "Requests", tone: "plain", format: (value) => `${digits(value)}/s` },
  { key: "connections", label: "Connections", tone: "plain", format: (value) => group(value) },
  { key: "throttled", label: "Throttled now", sum: "Throttled", tone: "throttled", format: (value) => group(value), href: "/throttled" },
];

const url = new UrlState({ range: "5m" });
const tiles = new Map(TILES.map((tile) => [tile.key, makeTile(tile)]));
const charts = new Charts(url);
let history = null;

function makeTile({ label, tone, href }) {
  const value = h("p.figure", "–");
  const spark = new Sparkline(tone);
  const head = h("p.tile-label", label);
  const tile = href ? h("a.card.tile", { href }, head, value, spark.element) : h("div.card.tile", head, value, spark.element);
  document.getElementById("tiles").append(tile);
  return { tile, head, value, spark };
}

function showFigures() {
  for (const { key, label, format } of TILES) {
    const { tile, value, spark } = tiles.get(key);
    const values = history[key].slice(-SHOWN_IN_TILES);
    const now = values.at(-1) ?? 0;
    setText(value, format(now));
    value.title = key.startsWith("bytes") ? `${group(Math.round(now))} bytes/s` : "";
    spark.show(values, `${label}, last ${Math.round(SHOWN_IN_TILES / 60)} minutes, at most ${format(Math.max(...values, 0))}`);
    tile.dataset.alert = key === "throttled" && now > 0 ? "yes" : "no";
  }
  charts.show(history);
}

/** Where gateways share limits, says which numbers are sums of all of them. */
function showSums({ gateways }) {
  const number = gateways?.gateways ?? 1;
  const several = number > 1;
  for (const { key, label, sum = label } of TILES) setText(tiles.get(key).head, several ? `${sum}, ${number} gateways` : label);
  for (const note of document.querySelectorAll("[data-sums]")) setText(note, several ? `sum of ${number} gateways` : "");
  for (const note of document.querySelectorAll("[data-own]")) setText(note, several ? "this gateway" : "");
}

function showFacts({ metrics, ...overview }) {
  const parts = [
    `${overview.upstream ? "Gateway" : "Node"} ${overview.node_id}`,
    `version ${overview.software_version}`,
    `up ${duration(metrics.uptime_ms)}`,
    ...(overview.upstream ? upstreamFacts(overview.upstream) : [topicFacts(overview), count(metrics.groups, "group")]),
    count(overview.quota_rules, "client quota rule"),
    ...(overview.ip_quota_rules ? [count(overview.ip_quota_rules, "IP quota rule")] : []),
  ];
  const facts = document.getElementById("facts");
  setText(facts, parts.join(" · "));
  facts.title = overview.upstream ? `Upstream cluster ${overview.upstream.cluster_id || "unknown"}` : `Cluster ${overview.cluster_id}`;
}

function topicFacts({ topics, user_topics: users, partitions }) {
  const internal = topics > users ? ` (${group(topics - users)} internal)` : "";
  return `${count(topics, "topic")}${internal}, ${count(partitions, "partition")}`;
}

function upstreamFacts({ condition, connected, nodes }) {
  return [nodes ? `${group(connected)} of ${count(nodes, "upstream node")} connected` : `upstream cluster ${condition}`];
}

/** A gateway does not know its cluster's topics: there the first client ends the first steps. */
function showFirstSteps(overview) {
  const card = document.getElementById("first-steps");
  const unused = (overview.gateways ?? overview.metrics).connections === 0;
  const fresh = overview.upstream ? unused : overview.user_topics === 0;
  setText(document.getElementById("first-steps-title"), unused ? "No client has connected yet" : "No topic has been created yet");
  if (card.hidden !== fresh) return;
  card.hidden = !fresh;
  if (!fresh) return;
  const snippets = document.getElementById("snippets");
  const { kcat, python, plain } = snippets.dataset;
  const address = document.getElementById("bootstrap").textContent;
  replace(document.getElementById("bootstrap-copy"), copyButton(address));
  // A command and not a button: starting programs on behalf of a browser would be a security risk.
  // Browsers resolve every name under .localhost, other programs only localhost itself.
  const host = location.hostname.endsWith(".localhost") ? `localhost:${location.port}` : location.host;
  const demo = `WEIR_ADMIN_TOKEN=… make demo ARGS="--running --bootstrap ${address} --console ${host}"`;
  replace(
    snippets,
    h("div", h("h3", "kcat"), copyable(kcat, "A kcat command")),
    h("div", h("h3", "Python (pip install confluent-kafka)"), copyable(python, "A Python program")),
    plain === "yes" && document.body.dataset.role === "admin" && h("div", h("h3", "Demo tenants, from Weir’s source folder"), copyable(demo, "A command that starts demo tenants")),
  );
}

function showAll(overview) {
  showFacts(overview);
  showSums(overview);
  showFirstSteps(overview);
  showHealth(document.getElementById("health"), overview.metrics);
  showQueues(document.getElementById("queues"), overview.metrics.queues);
  showPhases(document.getElementById("phases"), overview.metrics.phases);
}

function arrived(overview) {
  charts.marks.update(overview.version);
  const { sample } = overview;
  const last = history?.at_ms.at(-1) ?? 0;
  if (history && sample && sample.at_ms > last) {
    append(sample);
    if (last && sample.at_ms - last > MISSED_MS) refill();
  }
  showAll(overview);
}

// A failed request leaves a gap in the charts.
async function refill() {
  const answer = await get(`/api/v1/overview?history_s=${KEPT}`).catch(() => null);
  if (answer) history = answer.history;
}

function append(sample) {
  for (const [key, column] of Object.entries(history)) {
    column.push(sample[key]);
    if (column.length > KEPT) column.shift();
  }
  showFigures();
}

async function start() {
  try {
    const overview = await get(`/api/v1/overview?history_s=${KEPT}`);
    history = overview.history;
    showFigures();
    showAll(overview);
  } catch (problem) {
    replace(document.getElementById("charts"), h("div.card", failed(problem, () => location.reload())));
  }
}

await start();
startLive(["throttled", "quotas"], {
  overview: arrived,
  throttled: (answer) => showThrottled(document.getElementById("throttled-now"), answer),
  quotas: (answer) => showNear(document.getElementById("near"), answer),
}).open({ sort: "used", order: "desc", limit: "5" });
