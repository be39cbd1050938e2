// Client quotas: the table of rules with their use, and its editor.

import { get } from "./api.js";
import { empty, h, iconButton, needs, setText } from "./dom.js";
import { entityKey, entityText, ruleLink } from "./entity.js";
import { importMenu } from "./import_panel.js";
import { Listing } from "./listing.js";
import { QuotaEditor } from "./quota_editor.js";
import { limitFigure, shadowBadge } from "./quota_figure.js";
import { quotaImport } from "./quota_import.js";
import { QuotaRemoval } from "./quota_removal.js";
import { countdowns, countdownKey, permanentOf } from "./quota_times.js";
import { Selection } from "./selection.js";
import { toast } from "./shell.js";
import { changedCell, once } from "./table.js";
import { Unlimited } from "./unlimited.js";
import { OpenPanel } from "./unsaved.js";
import { count as counted, group, KEYS } from "./units.js";

// The maximum that one request may change.
const MAX_CHOSEN = 1000;
const KEPT_S = 120;
const BUTTON = (action) => `button[aria-label^="${action}"]`;

/** The use of limits in the last minutes, as this page has seen it: by the second, for the lines in the rows. */
class UseHistory {
  constructor() {
    this.series = new Map();
  }

  /** `rows`: [{key, values: {name: value}}], all that are shown; those of other rows are forgotten. */
  add(rows, now = Date.now()) {
    const second = Math.floor(now / 1000);
    const kept = new Map();
    for (const { key, values } of rows) {
      for (const [name, value] of Object.entries(values)) {
        const id = `${key} ${name}`;
        const known = this.series.get(id) ?? { second, values: [] };
        // An event that does not come says that nothing has changed.
        const missed = Math.min(Math.max(second - known.second - 1, 0), KEPT_S);
        const again = second === known.second && known.values.length ? known.values.slice(0, -1) : known.values;
        const filled = [...again, ...Array(missed).fill(known.values.at(-1) ?? value), value];
        kept.set(id, { second, values: filled.slice(-KEPT_S) });
      }
    }
    this.series = kept;
  }

  /** The values of one row, a second apart, the oldest first. */
  of(key, name) {
    return this.series.get(`${key} ${name}`)?.values ?? [];
  }
}

const adding = document.getElementById("adding");
const order = document.getElementById("order");
const mayEdit = document.body.dataset.mayEdit === "yes";
const opened = new OpenPanel({ listing: () => list, above: adding });
const history = new UseHistory();

const selection = new Selection({
  bar: document.getElementById("selected"),
  keyOf: (row) => entityKey(row.entity),
  labelOf: (row) => entityText(row.entity),
  noun: "rule",
  more: everyMatch,
  act: { label: "Remove limits…", run: removeChosen },
});

const list = new Listing({
  topic: "quotas",
  label: "Client quota rules",
  nouns: ["rule", "rules"],
  keyOf: (row) => entityKey(row.entity),
  sort: "entity",
  also: { add: "" },
  topics: { unlimited: (answer) => unlimited.show(answer) },
  none: () => empty("quotas", "No quotas yet", "Clients are unlimited. A quota limits the rate of a user, a client id, or both.",
    needs("editor", h("button.primary", { type: "button", onclick: () => add() }, "Add the first quota"))),
  filtered: empty("search", "No match", "No rules match the search.", h("button", { type: "button", onclick: clear }, "Show all rules")),
  below: opened.below,
  arrived: ({ items, unlisted }) => {
    history.add(items.map(({ entity, limits }) => ({ key: entityKey(entity), values: usesOf(limits) })));
    showUnlisted(unlisted);
  },
  drawn: ({ items, total }) => {
    order.value = list.url.values.sort === "used" ? "used" : "entity";
    selection.show(items, total);
    narrow(items);
  },
  columns: [
    { label: "Rule", sort: "entity", size: "entity", whole: "bare", before: selection.head, cell: ruleCell },
    ...Object.entries(KEYS).map(([key, { column }]) => ({ label: column, sort: key, size: "limit", num: true, cell: (row, td) => limitCell(key, row, td) })),
    { label: "Last changed", sort: "changed", size: "changed", cell: changedCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

/** Of each gateway, the limits of which most is used are known. */
function showUnlisted(number) {
  const note = document.getElementById("elsewhere");
  note.hidden = number === 0;
  setText(note, `The use of ${counted(number, "limit")} at other gateways is not included: each gateway reports the 250 of which it uses most.`);
}

function ruleCell(row, td) {
  td.row = row;
  const temporary = Object.entries(row.temporary ?? {});
  once(td, `${entityKey(row.entity)} ${row.shadow} ${temporary.map(([key, limit]) => countdownKey(key, limit))}`, () =>
    h("span.chooser", selection.box(() => td.row), h("span.rule-of", h("span.rule-line", ruleLink(row.entity), row.shadow && shadowBadge()), countdowns(temporary))));
}

function limitCell(key, row, td) {
  const limit = row.limits[key];
  td.row = row;
  td.ondblclick ??= () => mayEdit && edit(td.row, key);
  const temporary = row.temporary?.[key]?.active ?? false;
  const shown = limit ? `${limit.value} ${limit.observed} ${limit.upstream_node} ${limit.gateway} ${limit.throttled} ${JSON.stringify(limit.overridden_by)} ${limit.shadow_throttles?.times} ${limit.shadow_throttles?.throttle_ms}` : "";
  td.dataset.limit = limit ? "yes" : "no";
  const past = limit ? history.of(entityKey(row.entity), key) : [];
  once(td, shown ? `${shown} ${temporary} ${past}` : "none", () => (limit ? limitFigure(key, limit, { past, isTemporary: temporary }) : h("span.quiet", { title: "No limit of this kind in this rule" }, "–")));
}

function actionsCell(row, td) {
  td.row = row;
  once(td, "actions", () => {
    const text = entityText(row.entity);
    return h("span.actions",
      needs("editor", iconButton("edit", `Edit ${text}`, () => edit(td.row))),
      needs("editor", iconButton("copy", `Duplicate ${text}`, () => add(permanentOf(td.row)))),
      needs("editor", iconButton("remove", `Remove ${text}`, () => remove(td.row))));
  });
}

/** `first`: the limit whose field gets the focus. */
function edit(row, first) {
  opened.open(entityKey(row.entity), (onclose) => new QuotaEditor({ row, first, onclose, onedit: (other) => edit(other) }), BUTTON("Edit"));
}

function remove(row) {
  opened.open(entityKey(row.entity), (onclose) => new QuotaRemoval({ rows: [row], onclose }), BUTTON("Remove"));
}

function removeChosen(rows) {
  const onclose = (done) => {
    opened.close();
    if (done) selection.clear();
    else selection.bar.querySelector("button.danger")?.focus();
  };
  opened.open(null, () => new QuotaRemoval({ rows, onclose }));
}

/** All rules that match the filter, on any page; IP rules are on another page. */
async function everyMatch() {
  const { q, shape: kind } = list.url.values;
  try {
    const { items } = await get(`/api/v1/client-quotas?${new URLSearchParams({ search: q, ...(kind && { filter: kind }), limit: MAX_CHOSEN })}`);
    if (list.answer.total > MAX_CHOSEN) toast(`${group(MAX_CHOSEN)} rules at a time.`);
    return items.filter(({ entity }) => !("ip" in entity));
  } catch (problem) {
    toast(problem.message, { kind: "bad" });
    return [];
  }
}

function add(limits = {}, start = {}) {
  return opened.open(null, (onclose) => new QuotaEditor({ row: null, limits, ...start, onclose, onedit: edit }));
}

/** Opens the editor with a new rule for an unlimited client. */
async function limit(entity, use) {
  await add({}, { entity, use });
  adding.scrollIntoView({ block: "nearest" });
}

/** The columns of limits that no shown rule has give their width to the names. */
function narrow(items) {
  const columns = list.table.element.querySelectorAll("col.size-limit");
  Object.keys(KEYS).forEach((key, index) => columns[index].classList.toggle("unused", items.every(({ limits }) => !(key in limits))));
}

function usesOf(limits) {
  return Object.fromEntries(Object.entries(limits).filter(([, { observed }]) => observed !== null).map(([key, { observed }]) => [key, observed]));
}

function clear() {
  list.url.set({ add: "" });
  list.clear();
}

// A link from another page proposes a rule: {"entity": {...}, "limits": {key: value}}. The editor opens with it, unsaved.
function propose() {
  try {
    const { entity, limits } = JSON.parse(list.url.values.add);
    add(Object.fromEntries(Object.entries(limits).map(([key, value]) => [key, { value }])), { entity });
  } catch {
    // Ignore an invalid URL parameter.
  }
  list.url.set({ add: "" });
}

order.addEventListener("change", () => list.ask({ sort: order.value, order: order.value === "used" ? "desc" : "asc", offset: "0" }));
needs("editor", document.getElementById("add")).addEventListener("click", () => add());
needs("editor", document.getElementById("import"));
importMenu(() => opened.open(null, quotaImport));
const unlimited = new Unlimited(document.getElementById("unlimited"), limit);
list.start({ n: () => document.getElementById("add").click() });
if (list.url.values.add && mayEdit) propose();
