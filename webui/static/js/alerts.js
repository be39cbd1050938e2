// Alerts: what fires now, the rules, the destinations of notifications, and what happened.

import { get, post } from "./api.js";
import { DestinationEditor, destinationRemoval, RuleEditor, ruleRemoval, ruleSentence, valueText } from "./alert_editors.js";
import { empty, failed, h, iconButton, needs, replace, setText, skeleton } from "./dom.js";
import { inPath } from "./names.js";
import { onKeys, startLive, toast } from "./shell.js";
import { once, Table } from "./table.js";
import { ago, count as counted, group } from "./units.js";
import { mayDiscard } from "./unsaved.js";

const AGAIN_MS = 3000;
const PATHS = ["/api/v1/alerts", "/api/v1/alert-rules", "/api/v1/alert-destinations", "/api/v1/alerts:history"].map((path) => `${path}?limit=1000`);
const boxes = Object.fromEntries(["active", "table", "destinations", "history"].map((id) => [id, document.getElementById(id)]));
const places = { rule: document.getElementById("adding"), destination: document.getElementById("adding-destination") };

let state = null;
// The open panel: {kind, key, panel, element}; the key null is above its table.
let open = null;

const time = (at) => h("time", { datetime: at, title: new Date(at).toLocaleString() }, ago(at));
const labelsOf = (labels) => h("span.chips", labels.map(({ name, value }) => h("span.chip", h("span", name.replaceAll("_", " ")), h("span.name", value))));
const severity = (text) => h("span.tag", { data: { severity: text } }, text);

const active = new Table({
  label: "Alerts now",
  keyOf: (row) => `${row.rule} ${JSON.stringify(row.labels)}`,
  onsort: () => {},
  columns: [
    { label: "Rule", size: "rule", whole: "bare", cell: (row, td) => once(td, `${row.rule} ${row.severity}`, () => h("span.two", h("b.name", row.rule), h("span", severity(row.severity)))) },
    { label: "About", size: "about", whole: true, cell: (row, td) => once(td, JSON.stringify(row.labels), () => labelsOf(row.labels)) },
    { label: "State", size: "state", cell: (row, td) => once(td, row.state, () => h("span.tag", { data: { event: row.state } }, row.state)) },
    { label: "Value", size: "number", num: true, cell: valueCell },
    { label: "Threshold", size: "number", num: true, cell: (row, td) => setText(td, valueText(row.condition, row.threshold)) },
    { label: "Since", size: "when", cell: (row, td) => once(td, `${row.since} ${ago(row.since)}`, () => time(row.since)) },
  ],
});

const rules = new Table({
  label: "Alert rules",
  keyOf: ({ name }) => name,
  onsort: () => {},
  columns: [
    { label: "Name", size: "rule", whole: "bare", cell: (row, td) => once(td, `${row.name} ${row.severity} ${row.enabled}`, () => h("span.two", h("b.name", row.name), h("span", severity(row.severity), !row.enabled && h("span.tag", "disabled")))) },
    { label: "Condition", size: "about", whole: true, cell: (row, td) => once(td, JSON.stringify([row.condition, row.threshold, row.match, row.for_ms]), () => ruleSentence(row)) },
    { label: "Now", size: "state", cell: nowCell },
    { label: "Highest value", size: "number", num: true, cell: (row, td) => setText(td, row.value === null ? "–" : valueText(row.condition, row.value)) },
    { label: "Notifies", size: "targets", cell: (row, td) => once(td, row.destinations.join("\n"), () => (row.destinations.length ? h("span.name", row.destinations.join(", ")) : h("span.quiet", "no destination"))) },
    { label: "", size: "actions", whole: "bare", num: true, cell: (row, td) => actions(row, td, "rule", "editor") },
  ],
});

const destinations = new Table({
  label: "Destinations",
  keyOf: ({ name }) => name,
  onsort: () => {},
  columns: [
    { label: "Name", size: "rule", whole: "bare", cell: (row, td) => once(td, `${row.name} ${row.kind}`, () => h("span.two", h("b.name", row.name), h("span", row.kind || "unreadable"))) },
    { label: "URL", size: "about", whole: true, cell: (row, td) => once(td, `${row.url} ${row.header_names}`, () => h("span.two", h("span.mono.name", row.url || "its key is not available"), row.header_names.length > 0 && h("span.name", `headers: ${row.header_names.join(", ")}`))) },
    { label: "Sent", size: "state", num: true, cell: (row, td) => setText(td, group(row.sent)) },
    { label: "Waiting", size: "state", num: true, cell: (row, td) => setText(td, group(row.waiting)) },
    { label: "Lost", size: "state", num: true, cell: (row, td) => once(td, String(row.undelivered + row.dropped), () => (row.undelivered + row.dropped ? h("b.warn", group(row.undelivered + row.dropped)) : "0")) },
    { label: "Last attempt", size: "targets", cell: attemptCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: destinationActions },
  ],
});

const events = new Table({
  label: "History of alerts",
  keyOf: ({ number }) => number,
  onsort: () => {},
  columns: [
    { label: "When", size: "when", cell: (row, td) => once(td, `${row.at} ${ago(row.at)}`, () => time(row.at)) },
    { label: "Event", size: "state", cell: (row, td) => once(td, row.event, () => h("span.tag", { data: { event: row.event } }, row.event)) },
    { label: "Rule or destination", size: "rule", whole: "bare", cell: (row, td) => once(td, String(row.number), () => h("b.name", row.rule || row.destination)) },
    { label: "About", size: "about", whole: true, cell: (row, td) => once(td, String(row.number), () => (row.rule ? labelsOf(row.labels) : h("span.name", row.text))) },
  ],
});

function valueCell({ condition, value, unknown_since: unknown }, td) {
  const text = valueText(condition, value);
  once(td, `${text} ${unknown && ago(unknown)}`, () => (unknown ? h("span.two", h("span", text), h("span.quiet", "unknown since ", time(unknown))) : text));
}

function nowCell(row, td) {
  once(td, `${row.firing} ${row.pending} ${row.unlisted} ${row.enabled}`, () => {
    if (!row.enabled) return h("span.quiet", "–");
    const more = row.unlisted ? ` (${group(row.unlisted)} more are not tracked)` : "";
    if (row.firing) return h("b.warn", `${group(row.firing)} firing${more}`);
    return row.pending ? `${group(row.pending)} pending${more}` : h("span.quiet", "OK");
  });
}

function attemptCell({ problem, last_sent_at: at }, td) {
  once(td, `${problem} ${at && ago(at)}`, () => {
    if (problem) return h("span.warn.name", problem);
    return at ? h("span", "accepted ", time(at)) : h("span.quiet", "none yet");
  });
}

function actions(row, td, kind, role) {
  td.row = row;
  once(td, row.name, () => h("span.actions",
    needs(role, iconButton("edit", `Edit ${row.name}`, () => edit(kind, td.row))),
    needs(role, iconButton("remove", `Remove ${row.name}`, () => edit(kind, td.row, true)))));
}

function destinationActions(row, td) {
  td.row = row;
  once(td, row.name, () => h("span.actions",
    needs("admin", iconButton("renew", `Test ${row.name}`, () => test(td.row))),
    needs("admin", iconButton("edit", `Edit ${row.name}`, () => edit("destination", td.row))),
    needs("admin", iconButton("remove", `Remove ${row.name}`, () => edit("destination", td.row, true)))));
}

async function test({ name }) {
  toast(`Sending a test to ${name}…`);
  try {
    const { delivered, reason } = await post(`/api/v1/alert-destinations/${inPath(name)}:test`);
    toast(delivered ? `${name} accepted the test: ${reason}.` : `${name} did not accept the test: ${reason}.`, { kind: delivered ? "good" : "bad" });
  } catch (problem) {
    toast(problem.message, { kind: "bad" });
  }
  load();
}

const TABLES = { rule: rules, destination: destinations };
const MAKERS = {
  rule: (row, removing, onclose) => (removing ? ruleRemoval(row, onclose) : new RuleEditor({ row, destinations: state.destinations, onclose })),
  destination: (row, removing, onclose) => (removing ? destinationRemoval(row, onclose) : new DestinationEditor({ row, onclose })),
};

async function edit(kind, row, removing = false) {
  if (!state || !(await mayDiscard(open?.panel))) return;
  close();
  const key = row?.name ?? null;
  const leave = () => {
    close();
    const back = key === null ? document.getElementById(kind === "rule" ? "add" : "add-destination") : TABLES[kind].rows.get(key)?.querySelector(".actions button");
    back?.focus();
    load();
  };
  const panel = MAKERS[kind](row, removing, leave);
  if (key === null) {
    open = { kind, key, panel };
    replace(places[kind], h("div.card.panel", panel.element));
  } else {
    open = { kind, key, panel, element: h("tr.panel", h("td", { colspan: TABLES[kind].columns.length }, panel.element)) };
    show();
  }
  panel.focus();
}

function close() {
  if (open) open.panel.closed = true;
  open = null;
  for (const place of Object.values(places)) replace(place);
  show();
}

const below = (kind) => (key) => (open?.kind === kind && open.key === key ? open.element : null);
const NOTHING = {
  active: empty("alerts", "Nothing fires", "Alerts that are pending or firing appear here."),
  table: empty("alerts", "No rule yet", "A rule watches throttles, lag, clients that do not wait, or disks.", needs("editor", h("button.primary", { type: "button", onclick: () => edit("rule", null) }, "Add the first rule"))),
  destinations: empty("connections", "No destination yet", "Without a destination alerts are only shown here."),
  history: empty("audit", "No event yet", "What fires and what is resolved appears here."),
};

function show() {
  if (!state) return;
  const parts = [["active", active, state.alerts, () => null], ["table", rules, state.rules, below("rule")], ["destinations", destinations, state.destinations, below("destination")], ["history", events, state.events, () => null]];
  for (const [name, table, rows, extra] of parts) {
    table.show(rows, extra);
    const shown = rows.length ? table.element : NOTHING[name];
    if (boxes[name].firstChild !== shown) replace(boxes[name], shown);
  }
  const firing = state.alerts.filter(({ state: each }) => each === "firing").length;
  setText(document.getElementById("active-count"), firing ? `${counted(firing, "alert")} firing` : "");
}

let asking = false;

async function load() {
  if (asking) return;
  asking = true;
  try {
    const [alerts, listed, targets, history] = await Promise.all(PATHS.map((path) => get(path)));
    state = { alerts: alerts.items, rules: listed.items, destinations: targets.items, events: history.items };
    show();
  } catch (problem) {
    if (!state) replace(boxes.table, failed(problem, load));
  } finally {
    asking = false;
  }
}

needs("editor", document.getElementById("add")).addEventListener("click", () => edit("rule", null));
needs("admin", document.getElementById("add-destination")).addEventListener("click", () => edit("destination", null));
onKeys({ n: () => document.getElementById("add").click() });
for (const box of Object.values(boxes)) replace(box, skeleton(2));
await load();
let asked = performance.now();
let version = null;
startLive([], {
  overview: (overview) => {
    const isOld = performance.now() - asked > AGAIN_MS;
    if (!isOld && overview.version === version) return;
    version = overview.version;
    asked = performance.now();
    load();
  },
}).open();
