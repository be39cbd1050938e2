// Insights: the pipeline's tables over days in views, their freshness, and setup steps if there are none.

import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { copyable, failed, h, replace, setText, skeleton } from "./dom.js";
import { entityChips, entityText } from "./entity.js";
import { adviceSection } from "./insight_advice.js";
import { micros, money, shortDuration, shown, software } from "./insight_cells.js";
import { Needs } from "./insight_needs.js";
import { Drawing, GroupedDrawing } from "./insight_section.js";
import { clientMetricsSection, complianceSection, costSection, latencySection, lostSection, namesSection, offendersSection, softwareSection, stormsSection, throttlingSection, usageSection, utilisationSection } from "./insight_tables.js";
import { Proposal } from "./insight_what_if.js";
import { Views } from "./insight_views.js";
import { WrittenTables } from "./insight_written.js";
import { debounced, onKeys, startLive, UrlState } from "./shell.js";
import { ago, bytes, duration, group } from "./units.js";

const DAYS = { 1: "1 day", 7: "7 days", 30: "30 days", 90: "90 days" };
const DAY_MS = 86400_000;
const AGAIN_MS = 60_000;
const PHASES = { total: "whole requests", queue: "queue", local: "handling", remote: "waiting", response_queue: "response queue", response_send: "sending" };
const BYTES = [{ key: "produce_bytes", label: "Produced", tone: "in" }, { key: "fetch_bytes", label: "Fetched", tone: "out" }];
const COSTS = [{ key: "produced_cost", label: "Produced", tone: "in" }, { key: "fetched_cost", label: "Fetched", tone: "out" }];
const TOOK = [{ key: "p99_us", label: "p99", tone: "throttled" }, { key: "p50_us", label: "Median", tone: "in" }];
const THROTTLED = [{ key: "throttle_ms", label: "Throttled", tone: "throttled" }];
const COMPLIED = [{ key: "waiting_ms", label: "Clients that wait", tone: "in" }, { key: "early_ms", label: "Clients that send early", tone: "throttled" }, { key: "unknown_ms", label: "Unknown", tone: "plain" }];
/** The value of `cluster` in the URL for all clusters; "" stands for rows without a cluster. */
const ALL = "*";
const TABLES = ["usage", "offenders", "cost", "needs", "advice", "utilisation", "throttling", "throttle-compliance", "latency", "software", "storms", "names", "client-metrics", "lost"];

const url = new UrlState({ view: "usage", days: "7", to: "", user: "", client: "", cluster: ALL, q: "", api: "", phase: "total", need: "", ...Object.fromEntries(TABLES.map((id) => [`${id}-sort`, ""])) });
const stateBox = document.getElementById("state");
const tables = document.getElementById("tables");
const to = document.getElementById("to");
const filter = document.getElementById("filter");
const cluster = document.getElementById("cluster");
let state = null;
let asking = null;

const chart = (id, label, format, series) => new LineChart(document.getElementById(`${id}-chart`), { label, format, series, height: 170 });
const whose = () => ({ ...(url.values.user && { user: url.values.user }), ...(url.values.client && { client_id: url.values.client }) });
const tenants = () => ({ ...whose(), ...(url.values.user && { by: "client" }) });
const which = () => (url.values.api ? { api: url.values.api } : {});
const scope = () => (url.values.cluster === ALL ? {} : { cluster: url.values.cluster });
const needed = () => (url.values.client && !url.values.user ? { client_id: url.values.client } : url.values.user ? { user: url.values.user } : {});

const latency = latencySection({ query: which });
const bySoftware = softwareSection({ query: which, shown: showLatencyChoices });
const needs = new Needs({ query: needed, selected: () => url.values.need, select: (id) => url.set({ need: id }) });
const cost = costSection({ query: tenants, onwho: only });
const writtenTables = new WrittenTables(() => state);

/** What each view shows: sections and charts that load by themselves. */
const SHOWN = {
  usage: [
    usageSection({ query: tenants, onwho: only }),
    new Drawing({ id: "usage", path: "/api/v1/insights/usage:series", query: whose, chart: chart("usage", "Bytes produced and fetched", bytes, BYTES) }),
    offendersSection(),
  ],
  cost: [
    cost,
    new Drawing({ id: "cost", path: "/api/v1/insights/cost:series", query: whose, chart: chart("cost", "Cost", (value) => money(value, cost.answer?.currency), COSTS), step: "day" }),
  ],
  quotas: [needs.section, utilisationSection()],
  advice: [adviceSection({ warehouse: () => state, query: needed, scope })],
  proposal: [new Proposal({ range, scope })],
  throttling: [
    throttlingSection({ query: whose }),
    new Drawing({ id: "throttling", path: "/api/v1/insights/throttling:series", query: whose, chart: chart("throttling", "Throttle time", shortDuration, THROTTLED) }),
    complianceSection({ query: whose }),
    new Drawing({ id: "throttle-compliance", path: "/api/v1/insights/throttle-compliance:series", query: whose, chart: chart("throttle-compliance", "Throttle time by compliance", shortDuration, COMPLIED), step: null }),
  ],
  latency: [
    latency,
    new Drawing({ id: "latency", path: "/api/v1/insights/latency:series", query: () => ({ ...which(), phase: url.values.phase }), chart: chart("latency", "Request time", micros, TOOK) }),
    bySoftware,
    new GroupedDrawing({ id: "software", path: "/api/v1/insights/latency-by-software:series", query: which, chart: chart("software", "p95 of requests by client version", micros, []), step: null, groupOf: software, value: (item) => item.p95_us }),
  ],
  clients: [stormsSection(), namesSection(), clientMetricsSection({ query: whose })],
  data: [lostSection(), writtenTables],
};
/** The parameters with which a view was loaded last. */
const loaded = {};

for (const section of Object.values(SHOWN).flat()) {
  if (!section.sorting) continue;
  const name = `${section.id}-sort`;
  section.sorting = { read: () => url.values[name], write: (text) => choose({ [name]: text }, [section]) };
}

const views = new Views((view) => choose({ view }));

function today() {
  return new Date().toISOString().slice(0, 10);
}

function range() {
  const last = /^\d{4}-\d\d-\d\d$/.test(url.values.to) ? url.values.to : today();
  const first = new Date(Date.parse(last) - (Number(url.values.days) - 1) * DAY_MS).toISOString().slice(0, 10);
  return { from: first, to: last };
}

function parameters() {
  return { ...range(), ...scope(), ...(url.values.q && { search: url.values.q }) };
}

/** Everything on which a view depends, but the order of its tables. */
function loadedWith() {
  const { user, client, api, phase } = url.values;
  return JSON.stringify([parameters(), user, client, api, phase, state?.written_at]);
}

/** Stores a choice in the URL and loads the view, or only those `sections` of it. */
async function choose(changes, sections = null) {
  url.set(changes);
  showChoices();
  if (sections) await Promise.all(sections.map((section) => section.load(parameters())));
  else await loadView();
}

function only({ user, client_id: clientId }) {
  choose({ user: user ?? "", client: clientId ?? "" });
  document.getElementById("only").querySelector("button")?.focus();
}

function showChoices() {
  views.show(url.values.view);
  const days = document.getElementById("days");
  const focused = [...days.children].indexOf(document.activeElement);
  replace(days, Object.entries(DAYS).map(([key, text]) => h("button", { type: "button", "aria-pressed": String(key === url.values.days), onclick: () => choose({ days: key }) }, text)));
  days.children[focused]?.focus();
  const { from, to: last } = range();
  to.value = last;
  to.max = today();
  setText(document.getElementById("range"), `${from} to ${last}, in UTC`);
  const entity = { ...(url.values.user && { user: url.values.user }), ...(url.values.client && { "client-id": url.values.client }) };
  replace(document.getElementById("only"), Object.keys(entity).length > 0 && h("button", { type: "button", "aria-label": `Stop filtering by ${entityText(entity)}`, onclick: () => choose({ user: "", client: "" }) }, "Only", entityChips(entity), "✕"));
}

function showLatencyChoices() {
  const apis = [...new Set([url.values.api, ...(latency.rows ?? []).map(({ api }) => api), ...(bySoftware.rows ?? []).map(({ api }) => api)].filter(Boolean))].sort();
  const select = (label, options, key) => {
    const element = h("select", { onchange: () => choose({ [key]: element.value }).then(() => document.querySelector(`#latency-choices [data-key="${key}"]`)?.focus()), data: { key } },
      options.map(([value, text]) => h("option", { value }, text)));
    element.value = url.values[key];
    return h("label", label, element);
  };
  replace(document.getElementById("latency-choices"),
    select("API", [["", "all"], ...apis.map((api) => [api, api])], "api"),
    select("Chart", Object.entries(PHASES), "phase"));
}

async function loadView() {
  const { view } = url.values;
  const wanted = loadedWith();
  if (loaded[view] === wanted) return;
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  loaded[view] = wanted;
  signal.addEventListener("abort", () => loaded[view] === wanted && delete loaded[view]);
  await Promise.all(SHOWN[view].map((section) => section.load(parameters(), signal)));
  if (asking.signal === signal) asking = null;
  if (view === "latency" && !signal.aborted) showLatencyChoices();
}

/** Offers the clusters of the tables, where there are several. */
async function loadClusters() {
  let items = [];
  try {
    ({ items } = await get("/api/v1/insights/clusters?limit=1000"));
  } catch {
    // Each view shows the error.
  }
  const names = new Set(items.map((item) => item.cluster ?? ""));
  const several = names.size > 1;
  if (url.values.cluster !== ALL) names.add(url.values.cluster);
  cluster.parentElement.hidden = !several && url.values.cluster === ALL;
  replace(cluster, h("option", { value: ALL }, "All clusters"), [...names].map((name) => h("option", { value: name }, name || "Without a cluster id")));
  cluster.value = url.values.cluster;
  shown.severalClusters = several && url.values.cluster === ALL;
}

/** Setup steps for a broker without tables. */
const STEPS = {
  off: ({ setting, install, command }) => [
    "Set the pipeline’s warehouse in the broker’s configuration, install the table reader in a checkout of Weir, and restart the broker", `${setting}=/srv/weir`, install, command],
  missing: ({ install, command }) => ["Install the table reader in a checkout of Weir, and restart the broker", install, command],
  none: ({ command }) => ["There are no tables yet. Run the pipeline", command],
};

function showSteps(answer) {
  const [title, ...commands] = STEPS[answer.state](answer);
  replace(stateBox, h("section.card", h("div.steps",
    h("h2", title),
    h("p.quiet", "A Spark pipeline turns the broker’s events into tables of usage, throttling, request latency and recommended quotas. This page shows them."),
    commands.map((text, index) => copyable(text, `Step ${index + 1}`)),
    h("button", { type: "button", onclick: start }, "Check again"))));
}

function showFresh({ state: kind, newest_at: newest, written_at: written, usual_ms: usual, command, tables: writtenTables }) {
  const bad = writtenTables.filter(({ problem }) => problem !== null);
  const rows = writtenTables.reduce((sum, table) => sum + (table.rows ?? 0), 0);
  const facts = [newest && `newest minute ${ago(newest)}`, written && `written ${ago(written)}`, `${group(rows)} rows`];
  const line = document.getElementById("freshness");
  setText(line, facts.filter(Boolean).join(" · "));
  line.title = [newest, written].filter(Boolean).join(", ");
  replace(stateBox,
    kind === "stale" && h("div.notice", { data: { kind: "warn" }, role: "status" },
      h("p", `These tables were last written ${ago(written)}${usual ? `, though recently they were at least every ${duration(Math.max(usual, 1000))}` : ""}. Check that the pipeline is running.`),
      copyable(command, "Command that runs the pipeline")),
    bad.map(({ problem }) => h("p.notice", { data: { kind: "bad" }, role: "alert" }, problem)));
}

async function showState(answer) {
  const before = state;
  state = answer;
  const readable = answer.state === "ready" || answer.state === "stale";
  tables.hidden = !readable;
  if (answer.state in STEPS) return showSteps(answer);
  if (!readable) return replace(stateBox, h("div.card", failed({ message: answer.problem }, start)));
  showFresh(answer);
  if (before?.written_at === answer.written_at && before.state !== "none") return undefined;
  showChoices();
  await loadClusters();
  return loadView();
}

async function start() {
  if (state === null) replace(stateBox, h("div.card", skeleton(8)));
  try {
    await showState(await get("/api/v1/insights"));
  } catch (problem) {
    tables.hidden = true;
    replace(stateBox, h("div.card", failed(problem, start)));
  }
}

if (!(url.values.days in DAYS)) url.set({ days: "7" });
if (!(url.values.phase in PHASES)) url.set({ phase: "total" });
if (!(url.values.view in SHOWN)) url.set({ view: "usage" });
filter.value = url.values.q;
filter.addEventListener("input", debounced(() => choose({ q: filter.value.trim() }), 180));
to.addEventListener("change", () => choose({ to: to.value === today() ? "" : to.value }));
cluster.addEventListener("change", () => {
  shown.severalClusters = cluster.options.length > 2 && cluster.value === ALL;
  choose({ cluster: cluster.value });
});
onKeys({ "/": () => filter.focus() });
startLive([], {}).open();
start();
setInterval(() => document.visibilityState === "visible" && start(), AGAIN_MS);
