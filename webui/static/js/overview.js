// Overview: what the broker does now, the last minutes of it, and how much head-room is left.

import { get } from "./api.js";
import { LineChart, Sparkline } from "./chart.js";
import { copyable, copyButton, failed, h, replace, setText } from "./dom.js";
import { startLive, UrlState } from "./shell.js";
import { showHeld, showNear } from "./shortlists.js";
import { showHealth, showPhases, showQueues } from "./vitals.js";
import { bytesPerSecond, count, digits, duration, group } from "./units.js";

// So many seconds the page keeps itself; longer ranges it asks for, at the pace at which they change.
const KEPT = 900;
const RANGES = { "1m": [60, "1 min"], "5m": [300, "5 min"], "15m": [900, "15 min"], "1h": [3600, "1 h"], "6h": [21600, "6 h"], "24h": [86400, "24 h"] };
const AGAIN_MS = { 3600: 10_000, 21600: 60_000, 86400: 60_000 };
const SHOWN_IN_TILES = 120;

const TILES = [
  { key: "bytes_in", label: "Bytes in", tone: "in", words: (value) => bytesPerSecond(value) },
  { key: "bytes_out", label: "Bytes out", tone: "out", words: (value) => bytesPerSecond(value) },
  { key: "requests", label: "Requests", tone: "plain", words: (value) => `${digits(value)}/s` },
  { key: "connections", label: "Connections", tone: "plain", words: (value) => group(value) },
  { key: "throttled", label: "Throttled now", tone: "held", words: (value) => group(value), href: "/throttled" },
];

const url = new UrlState({ range: "5m" });
const tiles = new Map(TILES.map((tile) => [tile.key, makeTile(tile)]));
const chart = new LineChart(document.getElementById("throughput"), {
  label: "Bytes per second in and out",
  format: (value) => bytesPerSecond(value),
  series: [
    { key: "bytes_in", label: "Bytes in", tone: "in" },
    { key: "bytes_out", label: "Bytes out", tone: "out" },
  ],
});
let history = null;
// What was asked for a longer range: {seconds, data, at}.
let long = null;

function makeTile({ label, tone, href }) {
  const value = h("p.figure", "–");
  const spark = new Sparkline(tone);
  const head = h("p.tile-label", label);
  const tile = href ? h("a.card.tile", { href }, head, value, spark.element) : h("div.card.tile", head, value, spark.element);
  document.getElementById("tiles").append(tile);
  return { tile, value, spark };
}

function showFigures() {
  for (const { key, label, words } of TILES) {
    const { tile, value, spark } = tiles.get(key);
    const values = history[key].slice(-SHOWN_IN_TILES);
    const now = values.at(-1) ?? 0;
    setText(value, words(now));
    value.title = key.startsWith("bytes") ? `${group(Math.round(now))} bytes/s` : "";
    spark.show(values, `${label}, last ${Math.round(SHOWN_IN_TILES / 60)} minutes, at most ${words(Math.max(...values, 0))}`);
    tile.dataset.alert = key === "throttled" && now > 0 ? "yes" : "no";
  }
  showChart();
}

async function showChart() {
  const [seconds] = RANGES[url.values.range];
  if (seconds <= KEPT) {
    chart.show(history, seconds);
    return;
  }
  if (long?.seconds === seconds && performance.now() - long.at < AGAIN_MS[seconds]) return;
  long = { seconds, at: performance.now() };
  const answer = await get(`/api/v1/overview?history=${seconds}`).catch(() => null);
  if (answer && RANGES[url.values.range][0] === seconds) chart.show(answer.history, seconds);
}

function showFacts({ figures, ...overview }) {
  const parts = [
    `Node ${overview.node_id}`,
    `version ${overview.software_version}`,
    `up ${duration(figures.uptime_ms)}`,
    `${count(overview.topics, "topic")}, ${count(overview.partitions, "partition")}`,
    count(figures.groups, "group"),
    count(overview.quota_rules, "quota rule"),
  ];
  const facts = document.getElementById("facts");
  setText(facts, parts.join(" · "));
  facts.title = `Cluster ${overview.cluster_id}`;
}

function showFirstSteps(overview) {
  const card = document.getElementById("first-steps");
  const fresh = overview.topics === 0 && overview.figures.connections === 0;
  if (card.hidden !== fresh) return;
  card.hidden = !fresh;
  if (!fresh) return;
  const address = overview.bootstrap[0] ?? "localhost:9092";
  setText(document.getElementById("bootstrap"), address);
  replace(document.getElementById("bootstrap-copy"), copyButton(address));
  const python = [
    "from kafka import KafkaProducer",
    `producer = KafkaProducer(bootstrap_servers="${address}", client_id="hello")`,
    'producer.send("greetings", b"hello").get()',
  ].join("\n");
  const kcat = `echo hello | kcat -b ${address} -X client.id=hello -t greetings -P`;
  replace(
    document.getElementById("snippets"),
    h("div", h("h3", "kcat"), copyable(kcat, "A kcat command")),
    h("div", h("h3", "Python (pip install kafka-python)"), copyable(python, "A Python program")),
  );
}

function showRanges() {
  const buttons = Object.entries(RANGES).map(([key, [, words]]) =>
    h("button", { type: "button", "aria-pressed": String(key === url.values.range), onclick: () => choose(key) }, words),
  );
  replace(document.getElementById("range"), buttons);
}

function choose(range) {
  url.set({ range });
  long = null;
  showRanges();
  if (history) showFigures();
}

function showAll(overview) {
  showFacts(overview);
  showFirstSteps(overview);
  showHealth(document.getElementById("health"), overview.figures);
  showQueues(document.getElementById("queues"), overview.figures.queues);
  showPhases(document.getElementById("phases"), overview.figures.phases);
}

function arrived(overview) {
  const { sample } = overview;
  if (history && sample && sample.at_ms > (history.at_ms.at(-1) ?? 0)) {
    for (const [key, column] of Object.entries(history)) {
      column.push(sample[key]);
      if (column.length > KEPT) column.shift();
    }
    showFigures();
  }
  showAll(overview);
}

async function start() {
  try {
    const overview = await get(`/api/v1/overview?history=${KEPT}`);
    history = overview.history;
    showFigures();
    showAll(overview);
  } catch (problem) {
    replace(document.getElementById("throughput"), failed(problem, () => location.reload()));
  }
}

if (!(url.values.range in RANGES)) url.set({ range: "5m" });
const legend = chart.series.map(({ label, tone }) => h("span", h(`i.${tone}`), label));
replace(document.getElementById("legend"), legend);
showRanges();
await start();
startLive(["throttled", "quotas"], {
  overview: arrived,
  throttled: (answer) => showHeld(document.getElementById("held"), answer),
  quotas: (answer) => showNear(document.getElementById("near"), answer),
}).open({ sort: "used", order: "desc", limit: "5" });
