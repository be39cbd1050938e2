// Client quotas: the table of rules with their use, and its editor.

import { get } from "./api.js";
import { Sparkline } from "./chart.js";
import { empty, h, iconButton, needs, refresh, replace, setText, skeleton } from "./dom.js";
import { entityChips, entityKey, entityText, nodeText, ruleLink } from "./entity.js";
import { importMenu } from "./import_panel.js";
import { QuotaEditor } from "./quota_editor.js";
import { quotaImport } from "./quota_import.js";
import { QuotaRemoval } from "./quota_removal.js";
import { Selection } from "./selection.js";
import { debounced, onKeys, startLive, toast, UrlState } from "./shell.js";
import { once, Table } from "./table.js";
import { Unlimited } from "./unlimited.js";
import { mayDiscard } from "./unsaved.js";
import { UseHistory } from "./use_history.js";
import { ago, count as counted, digits, duration, group, KEYS, rate, rawRate } from "./units.js";

const PAGE = 50;
// The maximum that one request may change.
const MAX_CHOSEN = 1000;

const url = new UrlState({ q: "", shape: "", sort: "entity", order: "asc", offset: "0", rule: "", add: "" });
const box = document.getElementById("table");
const adding = document.getElementById("adding");
const filter = document.getElementById("filter");
const shape = document.getElementById("shape");
const count = document.getElementById("count");
const pager = document.getElementById("pager");
const mayEdit = document.body.dataset.mayEdit === "yes";

let listing = null;
// The panel that is open below a row: {key, panel}.
let open = null;
const history = new UseHistory();

const selection = new Selection({
  bar: document.getElementById("selected"),
  keyOf: (row) => entityKey(row.entity),
  labelOf: (row) => entityText(row.entity),
  noun: "rule",
  more: everyMatch,
  act: { label: "Remove limits…", run: removeChosen },
});

const table = new Table({
  label: "Client quota rules",
  keyOf: (row) => entityKey(row.entity),
  onsort: sortBy,
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
  once(td, `${entityKey(row.entity)} ${row.shadow}`, () =>
    h("span.chooser", selection.box(() => td.row), h("span", entityChips(row.entity), row.shadow && shadowBadge())));
}

function shadowBadge() {
  return h("span.badge-shadow", { title: "Shadow mode: limits are measured and counted, but throttle no client" }, "Shadow (not enforced)");
}

function limitCell(key, row, td) {
  const limit = row.limits[key];
  td.row = row;
  td.ondblclick ??= () => mayEdit && edit(td.row, key);
  const shown = limit ? `${limit.value} ${limit.observed} ${limit.upstream_node} ${limit.gateway} ${limit.throttled} ${JSON.stringify(limit.overridden_by)} ${limit.shadow_throttles?.times} ${limit.shadow_throttles?.throttle_ms}` : "";
  td.dataset.limit = limit ? "yes" : "no";
  const past = limit ? history.of(entityKey(row.entity), key) : [];
  once(td, shown ? `${shown} ${past}` : "none", () => (limit ? limitFigure(key, limit, past) : h("span.quiet", { title: "No limit of this kind in this rule" }, "–")));
}

function limitFigure(key, limit, past) {
  const { value, observed, used, throttled } = limit;
  const bar = h("i");
  bar.style.transform = `scaleX(${Math.min(1, used ?? 0)})`;
  const level = limit.shadow_throttles ? "measured" : used > 1 ? "urgent" : used > 0.8 ? "watch" : "good";
  const where = nodeText(limit.upstream_node) ?? (limit.gateway && `at gateway ${limit.gateway}`);
  const title = observed === null ? rawRate(key, value) : `${rawRate(key, observed)} of ${rawRate(key, value)}${where ? ` ${where}` : ""}`;
  return h("span.limit", { title },
    h("span.apart", throttled > 0 ? h("a.throttled", { href: "/throttled" }, `${group(throttled)} throttled`) : h("span"), h("b", rate(key, value))),
    h("span.bar", { data: { level } }, bar),
    limit.overridden_by ? overridden(limit.overridden_by) : h("span.apart.use", useText(key, limit)),
    past.length > 1 && pastLine(key, value, past),
    limit.shadow_throttles && shadowText(limit.shadow_throttles));
}

/** The rules because of which a limit applies to no client. */
function overridden({ rules, more, clients }) {
  const title = clients === null
    ? "It precedes this limit for every client"
    : `${counted(clients, "connected client")} ${clients === 1 ? "matches" : "match"} this limit, but ${clients === 1 ? "comes" : "come"} under ${rules.length + more === 1 ? "this rule" : "these rules"}`;
  if (rules.length + more === 1) return h("span.overridden", { title }, "overridden by ", ruleLink(rules[0]));
  return h("details.overridden", h("summary", { title }, "overridden by several rules"),
    h("ul", rules.map((rule) => h("li", ruleLink(rule))), more > 0 && h("li", `and ${group(more)} more`)));
}

/** The use against the limit, since the page was opened. */
function pastLine(key, limit, past) {
  const line = new Sparkline("in");
  line.show(past, `${rate(key, Math.max(...past), limit)} at most in the last ${counted(past.length, "second")}`, limit);
  return line.element;
}

function shadowText({ times, throttle_ms: throttleMs, last_at: lastAt }) {
  const total = throttleMs < 100000 ? `${digits(throttleMs / 1000)}\u00a0s` : duration(throttleMs);
  const last = lastAt === null ? "" : `, the last ${ago(lastAt)}`;
  const title = `If enforced, it would have throttled ${counted(times, "request")} for ${total} in total${last}`;
  return h("span.would", { title }, times ? `Would have throttled ${counted(times, "request")}, ${total}` : "Would not have throttled yet");
}

function useText(key, { value, observed, used }) {
  if (observed === null) return "not in use";
  return [h("span", rate(key, observed, value)), h("span", `${Math.round(used * 100)} %`)];
}

function changedCell(row, td) {
  once(td, `${row.changed_at} ${ago(row.changed_at)}`, () =>
    h("span.two.small", { title: `${new Date(row.changed_at).toLocaleString()} (${row.changed_at})` },
      h("time", { datetime: row.changed_at }, ago(row.changed_at)), h("span.name", `by ${row.changed_by}`)));
}

function actionsCell(row, td) {
  td.row = row;
  once(td, "actions", () => {
    const text = entityText(row.entity);
    return h("span.actions",
      needs("editor", iconButton("edit", `Edit ${text}`, () => edit(td.row))),
      needs("editor", iconButton("copy", `Duplicate ${text}`, () => add(td.row.limits))),
      needs("editor", iconButton("remove", `Remove ${text}`, () => remove(td.row))));
  });
}

/** `limit`: the field that gets the focus. */
function edit(row, limit) {
  const key = entityKey(row.entity);
  openBelow(key, new QuotaEditor({ row, onclose: () => closePanel(key, "Edit"), onedit: (other) => edit(other) }), limit);
}

function remove(row) {
  const key = entityKey(row.entity);
  openBelow(key, new QuotaRemoval({ rows: [row], onclose: () => closePanel(key, "Remove") }));
}

function removeChosen(rows) {
  const onclose = (done) => {
    closeAll();
    if (done) selection.clear();
    else selection.bar.querySelector("button.danger")?.focus();
  };
  openAbove(new QuotaRemoval({ rows, onclose }));
}

/** All rules that match the filter, on any page; IP rules are on another page. */
async function everyMatch() {
  const { q, shape: kind } = url.values;
  try {
    const { items } = await get(`/api/v1/client-quotas?${new URLSearchParams({ search: q, ...(kind && { filter: kind }), limit: MAX_CHOSEN })}`);
    if (listing.total > MAX_CHOSEN) toast(`${group(MAX_CHOSEN)} rules at a time.`);
    return items.filter(({ entity }) => !("ip" in entity));
  } catch (problem) {
    toast(problem.message, { kind: "bad" });
    return [];
  }
}

async function openBelow(key, panel, limit) {
  if (!(await mayDiscard(open?.panel))) return;
  closeAll();
  const cell = h("td", { colspan: table.columns.length }, panel.element);
  open = { key, panel, element: h("tr.panel", cell) };
  show();
  panel.focus(limit);
}

function add(limits = {}, start = {}) {
  return openAbove(new QuotaEditor({ row: null, limits, ...start, onclose: closeAdding, onedit: edit }));
}

async function openAbove(panel) {
  if (!(await mayDiscard(open?.panel))) return;
  closeAll();
  open = { key: null, panel };
  replace(adding, h("div.card.panel", panel.element));
  panel.focus();
}

/** Opens the editor with a new rule for an unlimited client. */
async function limit(entity, use) {
  await add({}, { entity, use });
  adding.scrollIntoView({ block: "nearest" });
}

function closeAdding() {
  closeAll();
  document.getElementById("add").focus();
}

function closePanel(key, action) {
  const row = table.rows.get(key);
  closeAll();
  row?.querySelector(`button[aria-label^="${action}"]`)?.focus();
}

function closeAll() {
  open?.panel.close();
  open = null;
  replace(adding);
  show();
}

function sortBy(key) {
  const same = url.values.sort === key;
  const first = key === "entity" ? "asc" : "desc";
  const order = !same ? first : url.values.order === "asc" ? "desc" : "asc";
  ask({ sort: key, order, offset: "0" });
}

function ask(changes) {
  url.set(changes);
  const { q, shape: kind, sort, order, offset } = url.values;
  live.open({ search: q, ...(kind && { filter: kind }), sort, order, offset, limit: PAGE });
}

function show() {
  if (!listing) return;
  table.showSort(url.values.sort, url.values.order);
  table.show(listing.items, (key) => (open?.key === key ? open.element : null));
  selection.show(listing.items, listing.total);
  for (const [key, element] of table.rows) element.classList.toggle("pointed", key === pointed);
  narrow();
  const shown = listing.items.length ? table.element : nothing();
  if (box.firstChild !== shown) replace(box, shown);
  const { total, of } = listing;
  setText(count, total === of ? (of ? counted(of, "rule") : "") : `${group(total)} of ${group(of)} rules`);
  showPager();
}

/** The columns of limits that no shown rule has give their width to the names. */
function narrow() {
  const columns = table.element.querySelectorAll("col.size-limit");
  Object.keys(KEYS).forEach((key, index) => columns[index].classList.toggle("unused", listing.items.every(({ limits }) => !(key in limits))));
}

function usesOf(limits) {
  return Object.fromEntries(Object.entries(limits).filter(([, { observed }]) => observed !== null).map(([key, { observed }]) => [key, observed]));
}

const NOTHING = {
  empty: empty("quotas", "No quotas yet", "Clients are unlimited. A quota limits the rate of a user, a client id, or both.",
    needs("editor", h("button.primary", { type: "button", onclick: () => add() }, "Add the first quota"))),
  filtered: empty("search", "No match", "No rules match the search.",
    h("button", { type: "button", onclick: clear }, "Show all rules")),
};

function nothing() {
  return listing.of ? NOTHING.filtered : NOTHING.empty;
}

function clear() {
  filter.value = "";
  shape.value = "";
  ask({ q: "", shape: "", offset: "0", rule: "", add: "" });
}

function showPager() {
  const { total, offset, limit, items } = listing;
  pager.hidden = total <= limit && offset === 0;
  if (pager.hidden) return;
  const go = (to) => ask({ offset: String(Math.max(0, to)) });
  refresh(pager,
    h("span.quiet", items.length ? `${group(offset + 1)} to ${group(offset + items.length)} of ${group(total)}` : "Past the end"),
    h("button", { type: "button", disabled: offset === 0, onclick: () => go(offset - limit) }, "Previous"),
    h("button", { type: "button", disabled: offset + limit >= total, onclick: () => go(offset + limit) }, "Next"));
}

// A link from a throttled row names a rule: find and highlight it.
let pointed = null;

function point() {
  let entity;
  try {
    entity = JSON.parse(url.values.rule);
  } catch {
    return;
  }
  pointed = entityKey(entity);
  const name = Object.values(entity).find((one) => typeof one === "string");
  if (name === undefined) url.values.shape = "default";
  else url.values.q = name;
}

// A link from another page proposes a rule: {"entity": {...}, "limits": {key: value}}. The editor opens with it, unsaved.
function propose() {
  try {
    const { entity, limits } = JSON.parse(url.values.add);
    add(Object.fromEntries(Object.entries(limits).map(([key, value]) => [key, { value }])), { entity });
  } catch {
    // Ignore an invalid URL parameter.
  }
  url.set({ add: "" });
}

if (url.values.rule) point();
filter.value = url.values.q;
shape.value = url.values.shape;
filter.addEventListener("input", debounced(() => ask({ q: filter.value.trim(), offset: "0" }), 180));
shape.addEventListener("change", () => ask({ shape: shape.value, offset: "0" }));
needs("editor", document.getElementById("add")).addEventListener("click", () => add());
needs("editor", document.getElementById("import"));
importMenu(() => openAbove(quotaImport(closeAdding)));
onKeys({ "/": () => filter.focus(), n: () => document.getElementById("add").click() });
replace(box, skeleton());
const unlimited = new Unlimited(document.getElementById("unlimited"), limit);
const live = startLive(["quotas", "unlimited"], {
  unlimited: (answer) => unlimited.show(answer),
  quotas: (answer) => {
    listing = answer;
    history.add(answer.items.map(({ entity, limits }) => ({ key: entityKey(entity), values: usesOf(limits) })));
    showUnlisted(answer.unlisted);
    show();
  },
});
ask({});
if (url.values.add && mayEdit) propose();
