// Alerts: what fires now, the rules, the destinations of notifications, and what happened.

import { get, post } from "./api.js";
import { ruleSentence, valueText } from "./alert_conditions.js";
import { RuleEditor, ruleRemoval } from "./alert_editors.js";
import { DestinationEditor, destinationRemoval, kindText, placeText } from "./destination_editor.js";
import { empty, failed, h, iconButton, needs, replace, setText, skeleton } from "./dom.js";
import { inPath } from "./names.js";
import { endSilence, SilenceEditor } from "./silence_editor.js";
import { onKeys, startLive, toast } from "./shell.js";
import { Slots } from "./slots.js";
import { once, Table } from "./table.js";
import { about, ago, count as counted, group } from "./units.js";
import { mayDiscard } from "./unsaved.js";

const AGAIN_MS = 3000;
const PATHS = ["/api/v1/alerts", "/api/v1/alert-rules", "/api/v1/alert-destinations", "/api/v1/alerts:history", "/api/v1/alert-silences"].map((path) => `${path}?limit=1000`);
const boxes = Object.fromEntries(["active", "table", "silences", "destinations", "history"].map((id) => [id, document.getElementById(id)]));
const places = { rule: document.getElementById("adding"), silence: document.getElementById("adding-silence"), destination: document.getElementById("adding-destination") };

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
    { label: "State", size: "state", cell: stateCell },
    { label: "Value", size: "number", num: true, cell: valueCell },
    { label: "Threshold", size: "number", num: true, cell: (row, td) => setText(td, valueText(row.condition, row.threshold)) },
    { label: "Since", size: "when", cell: (row, td) => once(td, `${row.since} ${ago(row.since)}`, () => time(row.since)) },
    { label: "", size: "actions", whole: "bare", num: true, cell: silenceAction },
  ],
});

const rules = new Table({
  label: "Alert rules",
  keyOf: ({ name }) => name,
  onsort: () => {},
  columns: [
    { label: "Name", size: "rule", whole: "bare", cell: (row, td) => once(td, `${row.name} ${row.severity} ${row.enabled}`, () => h("span.two", h("b.name", row.name), h("span", severity(row.severity), !row.enabled && h("span.tag", "disabled")))) },
    { label: "Condition", size: "about", whole: true, cell: (row, td) => once(td, JSON.stringify([row.condition, row.threshold, row.match, row.for_ms, row.below]), () => ruleSentence(row)) },
    { label: "Now", size: "state", cell: nowCell },
    { label: "Worst value", size: "number", num: true, cell: (row, td) => setText(td, row.value === null ? "–" : valueText(row.condition, row.value)) },
    { label: "Notifies", size: "targets", cell: (row, td) => once(td, row.destinations.join("\n"), () => (row.destinations.length ? h("span.name", row.destinations.join(", ")) : h("span.quiet", "no destination"))) },
    { label: "", size: "actions", whole: "bare", num: true, cell: (row, td) => actions(row, td, "rule", "editor") },
  ],
});

const silences = new Table({
  label: "Silences",
  keyOf: ({ name }) => name,
  onsort: () => {},
  columns: [
    { label: "Reason", size: "rule", whole: "bare", cell: (row, td) => once(td, row.name, () => h("b.name", row.name)) },
    { label: "Rule", size: "targets", cell: (row, td) => once(td, row.rule, () => (row.rule ? h("span.name", row.rule) : h("span.quiet", "all rules"))) },
    { label: "About", size: "targets", cell: (row, td) => once(td, row.match, () => (row.match ? h("span.mono.name", row.match) : h("span.quiet", "all"))) },
    { label: "Ends", size: "when", cell: (row, td) => once(td, `${row.ends_at} ${about(row.ends_in_ms)}`, () => h("time", { datetime: row.ends_at, title: `${new Date(row.ends_at).toLocaleString()} (${row.ends_at})` }, `in ${about(row.ends_in_ms)}`)) },
    { label: "Silenced now", size: "state", num: true, cell: (row, td) => setText(td, group(row.alerts)) },
    { label: "By", size: "state", cell: (row, td) => once(td, row.changed_by, () => h("span.name", row.changed_by)) },
    { label: "", size: "actions", whole: "bare", num: true, cell: silenceActions },
  ],
});

const destinations = new Table({
  label: "Destinations",
  keyOf: ({ name }) => name,
  onsort: () => {},
  columns: [
    { label: "Name", size: "rule", whole: "bare", cell: (row, td) => once(td, `${row.name} ${row.kind}`, () => h("span.two", h("b.name", row.name), h("span", kindText(row.kind)))) },
    { label: "To", size: "about", whole: true, cell: placeCell },
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

function stateCell({ state: now, silenced_until: until }, td) {
  once(td, `${now} ${until}`, () => h("span.two", h("span", h("span.tag", { data: { event: now } }, now)), until && h("span", { title: `until ${new Date(until).toLocaleString()} (${until})` }, "silenced")));
}

function silenceAction(row, td) {
  td.row = row;
  once(td, row.rule, () => h("span.actions", needs("editor", iconButton("silence", `Silence ${row.rule}`, () => edit("silence", null, false, { rule: td.row.rule, match: (td.row.labels.find(({ name }) => name !== "node")?.value ?? "").replace(/[[*?]/g, "[$&]") })))));
}

function silenceActions(row, td) {
  td.row = row;
  once(td, row.name, () => h("span.actions",
    needs("editor", iconButton("edit", `Edit ${row.name}`, () => edit("silence", td.row))),
    needs("editor", iconButton("close", `End ${row.name}`, () => end(td.row)))));
}

async function end(row) {
  try {
    toast(...(await endSilence(row)));
  } catch (problem) {
    toast(problem.status === 412 ? "The silence changed in the meantime; look at it again." : problem.message, { kind: "bad" });
  }
  load();
}

function nowCell(row, td) {
  once(td, `${row.firing} ${row.pending} ${row.unlisted} ${row.enabled}`, () => {
    if (!row.enabled) return h("span.quiet", "–");
    const more = row.unlisted ? ` (${group(row.unlisted)} more are not tracked)` : "";
    if (row.firing) return h("b.warn", `${group(row.firing)} firing${more}`);
    return row.pending ? `${group(row.pending)} pending${more}` : h("span.quiet", "OK");
  });
}

function placeCell(row, td) {
  const [to, more] = placeText(row);
  once(td, `${to} ${more}`, () => h("span.two", h("span.mono.name", to), more && h("span.name", more)));
}

function attemptCell({ problem, last_sent_at: at, next_attempt_at: next }, td) {
  const wait = next && Math.max(1, Math.ceil((Date.parse(next) - Date.now()) / 1000));
  once(td, `${problem} ${wait} ${at && ago(at)}`, () => {
    if (problem) return h("span.two", h("span.warn.name", problem), next && h("span", { title: new Date(next).toLocaleString() }, `tries again in ${about(wait * 1000)}`));
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

const now = new Slots(active.keyOf);

// New events wait for the reader: rows on top would move those that are read. The number of the newest one shown.
let newest = null;
const more = document.getElementById("more-events");
more.addEventListener("click", () => {
  newest = null;
  show();
  document.getElementById("history-head").focus();
});

/** The events that are shown: all at first and when asked for, else those without the newer ones. */
function eventsShown(all) {
  newest ??= all[0]?.number ?? null;
  const rest = all.filter(({ number }) => number <= newest);
  const waiting = all.length - rest.length;
  setText(more, waiting ? `Show ${counted(waiting, "new event")}` : "");
  more.hidden = !waiting;
  return rest;
}

const TABLES = { rule: rules, silence: silences, destination: destinations };
const MAKERS = {
  rule: (row, removing, onclose) => (removing ? ruleRemoval(row, onclose) : new RuleEditor({ row, destinations: state.destinations, onclose })),
  silence: (row, removing, onclose, given) => new SilenceEditor({ row, given, rules: state.rules, onclose }),
  destination: (row, removing, onclose) => (removing ? destinationRemoval(row, onclose) : new DestinationEditor({ row, onclose })),
};

const ADDS = { rule: "add", silence: "add-silence", destination: "add-destination" };

async function edit(kind, row, removing = false, given = {}) {
  if (!state || !(await mayDiscard(open?.panel))) return;
  close();
  const key = row?.name ?? null;
  const leave = () => {
    close();
    const back = key === null ? document.getElementById(ADDS[kind]) : TABLES[kind].rows.get(key)?.querySelector(".actions button");
    back?.focus();
    load();
  };
  const panel = MAKERS[kind](row, removing, leave, given);
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
  table: empty("alerts", "No rule yet", "A rule watches throttles, lag, clients that do not wait, throughput, idle shares, memory or disks.", needs("editor", h("button.primary", { type: "button", onclick: () => edit("rule", null) }, "Add the first rule"))),
  silences: empty("silence", "No silence", "A silence holds notifications back until its end."),
  destinations: empty("connections", "No destination yet", "Without a destination alerts are only shown here."),
  history: empty("audit", "No event yet", "What fires and what is resolved appears here."),
};

function show() {
  if (!state) return;
  const parts = [["active", active, now.place(state.alerts), () => null], ["table", rules, state.rules, below("rule")], ["silences", silences, state.silences, below("silence")], ["destinations", destinations, state.destinations, below("destination")], ["history", events, eventsShown(state.events), () => null]];
  for (const [name, table, rows, extra] of parts) {
    table.show(rows, extra);
    const shown = rows.length ? table.element : NOTHING[name];
    if (boxes[name].firstChild !== shown) replace(boxes[name], shown);
  }
  // What is below stays where it is when alerts end; on a phone each is a card of its own height.
  if (innerWidth > 960) boxes.active.style.minHeight = `${boxes.active.offsetHeight}px`;
  const firing = state.alerts.filter(({ state: each }) => each === "firing").length;
  setText(document.getElementById("active-count"), firing ? `${counted(firing, "alert")} firing` : "");
}

let asking = false;

async function load() {
  if (asking) return;
  asking = true;
  try {
    const [alerts, listed, targets, history, silenced] = await Promise.all(PATHS.map((path) => get(path)));
    state = { alerts: alerts.items, rules: listed.items, destinations: targets.items, events: history.items, silences: silenced.items };
    show();
  } catch (problem) {
    if (!state) replace(boxes.table, failed(problem, load));
  } finally {
    asking = false;
  }
}

addEventListener("resize", () => (boxes.active.style.minHeight = ""));
needs("editor", document.getElementById("add")).addEventListener("click", () => edit("rule", null));
needs("editor", document.getElementById("add-silence")).addEventListener("click", () => edit("silence", null));
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
