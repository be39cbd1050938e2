// Overview: one sentence of status, the load, and what needs attention.

import { NEAR_RULES, showAttention, showDisks, showStatus } from "./attention.js";
import { Charts, OVERVIEW } from "./charts.js";
import { copyable, copyButton, failed, h, replace, setText } from "./dom.js";
import { LoadFeed, showSums } from "./load_feed.js";
import { startLive, UrlState } from "./shell.js";
import { gauge } from "./vitals.js";
import { count, digits, duration, group } from "./units.js";

const charts = new Charts(new UrlState({ range: "5m" }), OVERVIEW);
const feed = new LoadFeed((columns) => {
  charts.show(columns);
  showFigures(columns);
});
// The last of each topic.
const state = { overview: null, throttled: null, quotas: null, attention: null };
const FIGURES = [["connections", "Connections", group], ["requests", "Requests", (value) => `${digits(value)}/s`]];
const figures = new Map(FIGURES.map(([key, label]) => {
  const value = h("dd", "–");
  document.getElementById("now").append(h("div", h("dt", label), value));
  return [key, value];
}));

function showFigures(columns) {
  for (const [key, , format] of FIGURES) setText(figures.get(key), format(columns[key].at(-1) ?? 0));
}

function showFacts({ metrics, ...overview }) {
  const { upstream } = overview;
  const server = [`${upstream ? "Gateway" : "Node"} ${overview.node_id}`, `version ${overview.software_version}`, `up ${duration(metrics.uptime_ms)}`];
  const rules = [count(overview.quota_rules, "client quota rule"), ...(overview.ip_quota_rules ? [count(overview.ip_quota_rules, "IP quota rule")] : [])];
  const facts = document.getElementById("facts");
  if (upstream) {
    if (!facts.firstElementChild) replace(facts, h("span"), h("a", { href: "/upstream" }), h("span"));
    const [before, link, after] = facts.children;
    setText(before, `${server.join(" · ")} · `);
    setText(link, upstreamFact(upstream));
    setText(after, ` · ${rules.join(" · ")}`);
  } else setText(facts, [...server, topicFacts(overview), count(metrics.groups, "group"), ...rules].join(" · "));
  facts.title = upstream ? `Upstream cluster ${upstream.cluster_id || "unknown"}` : `Cluster ${overview.cluster_id}`;
}

function topicFacts({ topics, user_topics: users, partitions }) {
  const internal = topics > users ? ` (${group(topics - users)} internal)` : "";
  return `${count(topics, "topic")}${internal}, ${count(partitions, "partition")}`;
}

function upstreamFact({ condition, connected, nodes }) {
  return nodes ? `${group(connected)} of ${count(nodes, "upstream node")} connected` : `upstream cluster ${condition}`;
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

function showLists() {
  showStatus(document.getElementById("status"), state);
  showAttention(document.getElementById("attention"), state);
}

function showAll(overview) {
  state.overview = overview;
  showFacts(overview);
  showSums(overview);
  showFirstSteps(overview);
  showLists();
}

/** Keeps what a topic says, and shows it. */
function kept(topic) {
  return (answer) => {
    state[topic] = answer;
    if (topic === "attention") showDisks(document.getElementById("disks"), answer.disks, gauge);
    showLists();
  };
}

try {
  showAll(await feed.start());
} catch (problem) {
  replace(document.getElementById("charts"), failed(problem, () => location.reload()));
}
startLive(["throttled", "quotas", "attention"], {
  overview: (overview) => {
    charts.marks.update(overview.version);
    feed.arrived(overview);
    showAll(overview);
  },
  throttled: kept("throttled"),
  quotas: kept("quotas"),
  attention: kept("attention"),
}).open({ sort: "used", order: "desc", limit: String(NEAR_RULES) });
