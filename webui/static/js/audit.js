// Audit: the trail of changes, with undo.

import { get } from "./api.js";
import { ORIGINS, KINDS, subject, values } from "./audit_text.js";
import { empty, failed, h, needs, replace, setText, skeleton } from "./dom.js";
import { debounced, onKeys, startLive, UrlState } from "./shell.js";
import { once, Table } from "./table.js";
import { UndoPanel } from "./undo_panel.js";
import { ago, clock, day } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const PAGE = 50;
const url = new UrlState({ q: "", log: "", kind: "", origin: "", order: "desc" });
const box = document.getElementById("table");
const filter = document.getElementById("filter");
const pager = document.getElementById("pager");

let changes = null;
let next = null;
// The cursor of the last page that was read; null for the first.
let last = null;
const opened = new OpenPanel({ listing: () => ({ table, show }), back: "button" });
// The metadata version at which the newest changes were read.
let version = null;

const table = new Table({
  label: "Changes",
  keyOf: ({ id }) => String(id),
  onsort: () => choose({ order: url.values.order === "desc" ? "asc" : "desc" }),
  columns: [
    { label: "When", sort: "when", size: "when", cell: whenCell },
    { label: "Actor", size: "who", cell: (row, td) => once(td, "", () => h("span.two", h("b.name", actorText(row)), h("span", row.role))) },
    { label: "Origin", size: "from", cell: fromCell },
    { label: "Resource", size: "what", whole: true, cell: (row, td) => once(td, "", () => subject(row)) },
    { label: "Change", size: "values", whole: true, cell: (row, td) => once(td, "", () => values(row)) },
    { label: "", size: "actions", whole: "bare", num: true, cell: undoCell },
  ],
});

function whenCell({ at, id }, td) {
  const moment = new Date(at);
  const today = moment.toDateString() === new Date().toDateString();
  once(td, ago(at), () =>
    h("span.two", { title: `${at}, change ${id}` },
      h("time", { datetime: at }, today ? ago(at) : day(at)), h("span", clock(moment))));
}

// A principal wraps after its type, not inside its name.
function actorText({ actor }) {
  return actor.startsWith("User:") ? ["User:", h("wbr"), actor.slice(5)] : actor;
}

function fromCell({ origin, address }, td) {
  once(td, "", () => h("span.two", h("span", ORIGINS[origin] ?? origin), h("span.mono", address || "–")));
}

function undoCell(row, td) {
  td.toggleAttribute("data-none", row.final !== null);
  once(td, String(row.final), () => (row.final === null
    ? needs(row.kind === "broker-config" || row.kind === "acl" ? "admin" : "editor", h("button.small", { type: "button", "aria-label": `Undo change ${row.id}`, onclick: () => opened.open(String(row.id), (onclose) => new UndoPanel({ change: row, onclose })) }, "Undo"))
    : h("span.quiet.small", { title: row.final }, row.final.includes("changed since") ? "superseded" : "")));
}

function query() {
  const { q, log, kind, origin } = url.values;
  const way = origin === "" ? { without_broker: "true" } : origin === "all" ? {} : { origin };
  return { ...(q && { search: q }), ...(log && { log }), ...(kind && { kind }), ...way };
}

function ask(more) {
  return get(`/api/v1/audit?${new URLSearchParams({ ...query(), ...(isRising() && { order: "asc" }), limit: PAGE, ...more })}`);
}

function isRising() {
  return url.values.order === "asc";
}

async function load() {
  const requested = JSON.stringify(url.values);
  try {
    const answer = await ask({});
    if (requested !== JSON.stringify(url.values)) return;
    changes = answer.items;
    next = answer.next;
    last = null;
    show();
  } catch (problem) {
    replace(box, failed(problem, load));
  }
}

/** After a change: adds new rows on top; rows read before may be final now. */
async function refresh() {
  // With the oldest first, new changes come last.
  if (isRising()) return void (next === null && older(last));
  const { items } = await ask({});
  const fresh = new Map(items.map((change) => [change.id, change]));
  const rest = changes.filter(({ id }) => !fresh.has(id));
  changes = [...items, ...rest];
  show();
}

/** Reads the page at `cursor`, again if it was read before: it may have more changes now. */
async function older(cursor = next) {
  const answer = await ask(cursor === null ? {} : { cursor });
  const fresh = new Set(answer.items.map(({ id }) => id));
  changes = [...changes.filter(({ id }) => !fresh.has(id)), ...answer.items];
  next = answer.next;
  last = cursor;
  show();
}

function show() {
  if (changes === null) return;
  table.showSort("when", url.values.order);
  setText(document.getElementById("older"), isRising() ? "Newer changes" : "Older changes");
  table.show(changes, opened.below);
  // The changes of one action stand together: only the first tells when and by whom.
  changes.forEach(({ id, batch }, index) => table.rows.get(String(id)).classList.toggle("joined", index > 0 && batch === changes[index - 1].batch && opened.key !== String(changes[index - 1].id)));
  const shown = changes.length ? table.element : [filter, kind, origin].some((field) => field.value) || url.values.log ? NOTHING.filtered : NOTHING.empty;
  if (box.firstChild !== shown) replace(box, shown);
  pager.hidden = next === null;
  for (const format of ["csv", "jsonl"]) {
    document.getElementById(`export-${format}`).href = `/api/v1/audit:export?${new URLSearchParams({ ...query(), format })}`;
  }
}

const NOTHING = {
  empty: empty("audit", "No changes yet", "Changes made in this console, over REST or with Kafka's tools appear here."),
  filtered: empty("search", "No match", "No change matches the filters.", h("button", { type: "button", onclick: clear }, "Show all changes")),
};

function clear() {
  for (const field of [filter, document.getElementById("log"), kind, origin]) field.value = "";
  choose({ q: "", log: "", kind: "", origin: "" });
}

function choose(changed) {
  url.set(changed);
  opened.close();
  load();
}

function select(id, all, labels) {
  const element = document.getElementById(id);
  replace(element, h("option", { value: "" }, all), Object.entries(labels).map(([value, text]) => h("option", { value }, text)));
  element.value = url.values[id];
  element.addEventListener("change", () => choose({ [id]: element.value }));
  return element;
}

select("log", "Changes", { reads: "Records read" });
const kind = select("kind", "All changes", KINDS);
const origin = select("origin", "All except the broker’s changes", { all: "All origins", ...ORIGINS });
filter.value = url.values.q;
filter.addEventListener("input", debounced(() => choose({ q: filter.value.trim() }), 180));
document.getElementById("older").addEventListener("click", () => older());
onKeys({ "/": () => filter.focus() });
replace(box, skeleton());
await load();
startLive([], {
  overview: (overview) => {
    if (version !== null && overview.version !== version) refresh();
    version = overview.version;
  },
}).open();
