// Insights: the pipeline's tables over days, their freshness, and setup steps if there are none.

import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { copyable, failed, h, replace, setText, skeleton } from "./dom.js";
import { entityChips, entityText } from "./entity.js";
import { adviceSection } from "./insight_advice.js";
import { Drawing } from "./insight_section.js";
import { clientMetricsSection, latencySection, lostSection, micros, namesSection, complianceSection, offendersSection, shortDuration, stormsSection, throttlingSection, usageSection, utilisationSection } from "./insight_tables.js";
import { startLive, UrlState } from "./shell.js";
import { ago, bytes, duration, group } from "./units.js";

const DAYS = { 1: "1 day", 7: "7 days", 30: "30 days", 90: "90 days" };
const DAY_MS = 86400_000;
const AGAIN_MS = 60_000;
const PHASES = { total: "whole requests", queue: "queue", local: "handling", remote: "waiting", response_queue: "response queue", response_send: "sending" };
const BYTES = [{ key: "produce_bytes", label: "Produced", tone: "in" }, { key: "fetch_bytes", label: "Fetched", tone: "out" }];
const TOOK = [{ key: "p99_us", label: "p99 of worst minute", tone: "throttled" }, { key: "p50_us", label: "Median", tone: "in" }];
const THROTTLED = [{ key: "throttle_ms", label: "Throttled", tone: "throttled" }];

const url = new UrlState({ days: "7", to: "", user: "", client: "", sort: "bytes", api: "", phase: "total" });
const stateBox = document.getElementById("state");
const tables = document.getElementById("tables");
const to = document.getElementById("to");
let state = null;
let asking = null;

const chart = (id, label, format, series) => {
  replace(document.getElementById(`${id}-legend`), series.length > 1 && series.map(({ label: name, tone }) => h("span", h(`i.${tone}`), name)));
  return new LineChart(document.getElementById(`${id}-chart`), { label, format, series, height: 170 });
};

const whose = () => ({ ...(url.values.user && { user: url.values.user }), ...(url.values.client && { "client-id": url.values.client }) });
const which = () => (url.values.api ? { api: url.values.api } : {});
const usage = usageSection({ query: () => ({ ...whose(), sort: url.values.sort, ...(url.values.user && { by: "client" }) }), onsort: sortBy, onwho: only });
const throttling = throttlingSection();
throttling.query = whose;
const compliance = complianceSection();
compliance.query = whose;
const clientMetrics = clientMetricsSection();
clientMetrics.query = whose;
const latency = latencySection({ query: which });
const sections = [
  usage,
  new Drawing({ path: "/api/v1/insights/usage:series", query: whose, chart: chart("usage", "Bytes produced and fetched", bytes, BYTES) }),
  throttling,
  new Drawing({ path: "/api/v1/insights/throttling:series", query: whose, chart: chart("throttling", "Throttle time", shortDuration, THROTTLED) }),
  latency,
  new Drawing({ path: "/api/v1/insights/latency:series", query: () => ({ ...which(), phase: url.values.phase }), chart: chart("latency", "Request time", micros, TOOK) }),
  adviceSection(() => state),
  utilisationSection(),
  compliance,
  offendersSection(),
  stormsSection(),
  namesSection(),
  clientMetrics,
  lostSection(),
];

function today() {
  return new Date().toISOString().slice(0, 10);
}

function range() {
  const last = /^\d{4}-\d\d-\d\d$/.test(url.values.to) ? url.values.to : today();
  const first = new Date(Date.parse(last) - (Number(url.values.days) - 1) * DAY_MS).toISOString().slice(0, 10);
  return { from: first, to: last };
}

function choose(changes) {
  url.set(changes);
  showChoices();
  return loadAll();
}

function only({ user, client_id: clientId }) {
  choose({ user: user ?? "", client: clientId ?? "" });
  document.getElementById("only").querySelector("button")?.focus();
}

function sortBy(key) {
  choose({ sort: url.values.sort === key ? "bytes" : key });
}

function showChoices() {
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
  usage.table.showSort(url.values.sort, "desc");
}

function showLatencyChoices() {
  const apis = [...new Set([url.values.api, ...(latency.rows ?? []).map(({ api }) => api)].filter(Boolean))].sort();
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

async function loadAll() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const parameters = range();
  await Promise.all(sections.map((section) => section.load(parameters, signal)));
  if (!signal.aborted) showLatencyChoices();
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

function showState(answer) {
  const before = state;
  state = answer;
  const readable = answer.state === "ready" || answer.state === "stale";
  tables.hidden = !readable;
  if (answer.state in STEPS) return showSteps(answer);
  if (!readable) return replace(stateBox, h("div.card", failed({ message: answer.problem }, start)));
  showFresh(answer);
  if (before?.written_at === answer.written_at && !tables.hidden && before.state !== "none") return undefined;
  showChoices();
  return loadAll();
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
to.addEventListener("change", () => choose({ to: to.value === today() ? "" : to.value }));
startLive([], {}).open();
start();
setInterval(() => document.visibilityState === "visible" && start(), AGAIN_MS);
