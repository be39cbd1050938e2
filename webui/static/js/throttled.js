// Throttled now: connections, rules and remaining milliseconds, counted down here between updates; and the clients
// throttled in the last hour.

import { get } from "./api.js";
import { BROKER_LIMIT_KEYS, BROKER_TYPES, brokerRuleLink, brokerRuleText } from "./broker_rule.js";
import { LineChart } from "./chart.js";
import { question } from "./connection_closing.js";
import { empty, h, icon, iconButton, iconLink, replace, setText, skeleton } from "./dom.js";
import { entityText, nodeText, ruleLink, rulePage, tagChips, tagText } from "./entity.js";
import { OrderMark } from "./order_mark.js";
import { QuotaMarks } from "./quota_marks.js";
import { debounced, onKeys, startLive, UrlState } from "./shell.js";
import { Slots } from "./slots.js";
import { once, Table } from "./table.js";
import { TYPES } from "./throttle_types.js";
import { about, ago, clock, count as counted, digits, group, milliseconds, rate, rawRate } from "./units.js";

/** Of clients throttled in the last hour: one line per client and rule, the latest first. */
function showRecent(box, { items, of }) {
  const lines = items.map((row) => [row, ago(row.last_at)]);
  once(box, JSON.stringify([lines, of]), () => {
    if (items.length === 0) return h("p.quiet.nothing", "No client was throttled.");
    const more = of > items.length ? h("p.quiet.nothing", `and ${group(of - items.length)} more`) : null;
    return [h("ul.recent-throttles", lines.map(recentLine)), more];
  });
}

function recentLine([row, last]) {
  const { client_id: client, principal, address, quota_type: type, entity, upstream_node: node, times, longest_ms: longest, worst, last_at: at } = row;
  const without = () => (type in BROKER_TYPES ? brokerRuleLink(type) : h("span.quiet", "by the callback"));
  const rule = Object.keys(entity).length ? ruleLink(entity) : without();
  const most = worst === null ? "" : `, up to ${digits(worst)}× the limit`;
  return h("li",
    h("span.two", type === "connection_rate" ? h("b", "New connections") : h("b.name", client), h("span.name", principal ? `${principal}, ${address}` : address)),
    h("span", h("span.tag", { data: { kind: type } }, TYPES[type] ?? type)),
    node === null ? rule : h("span.two", rule, h("span", nodeText(node))),
    h("span.two.num", { title: `${new Date(at).toLocaleString()} (${at})` },
      h("span", counted(times, "time"), ", longest ", about(longest)), h("span", `${last}${most}`)));
}

const LINGER_MS = 4000;
// A paced client is throttled for milliseconds many times a second: its row stays between two throttles.
const BETWEEN_WAITS_MS = 1200;
const FRAME_MS = 50;
const LIMIT_KEYS = { produce: "producer_byte_rate", fetch: "consumer_byte_rate", request: "request_percentage", controller_mutation: "controller_mutation_rate", ...BROKER_LIMIT_KEYS };
const OBEYS = { true: "waits", false: "ignores throttle", null: "" };

const url = new UrlState({ q: "", sort: "times", order: "desc" });
const box = document.getElementById("table");
const filter = document.getElementById("filter");
const count = document.getElementById("count");
const mayEdit = document.body.dataset.mayEdit === "yes";

// Rows of connections that are throttled or were a moment ago: a repeatedly throttled client stays one row.
const channels = new Map();
let total = 0;
let arrived = false;

const SORTS = {
  client: (row) => row.client_id.toLowerCase(),
  address: (row) => row.address,
  type: (row) => row.quota_type,
  rule: ruleText,
  over: (row) => (row.observed ?? 0) / row.bound,
  delay: (row) => row.throttle_ms,
  times: (row) => row.times,
  obeys: (row) => String(row.obeys),
};

const table = new Table({
  label: "Throttled connections",
  keyOf: (row) => `${row.gateway} ${row.connection_id} ${row.quota_type}`,
  onsort: sortBy,
  columns: [
    { label: "Client", sort: "client", size: "client", whole: "bare", cell: clientCell },
    { label: "Address", sort: "address", size: "address", cell: (row, td) => once(td, row.address, () => h("span.mono.small", row.address)) },
    { label: "Quota", sort: "type", size: "type", cell: typeCell },
    { label: "Rule that matched", sort: "rule", size: "rule", whole: true, cell: ruleCell },
    { label: "Rate against limit", sort: "over", size: "rate", whole: true, cell: rateCell },
    { label: "Throttle", sort: "delay", size: "delay", num: true, cell: throttleCell },
    { label: "Times", sort: "times", size: "times", num: true, cell: (row, td) => setText(td, group(row.times)) },
    { label: "Obeys", sort: "obeys", size: "obeys", cell: obeysCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

// With a quota callback no rule matches; the row has the callback's tags instead.
function hasRule(row) {
  return Object.keys(row.entity).length > 0;
}

function ruleText(row) {
  if (row.quota_type in BROKER_TYPES) return brokerRuleText(row.quota_type);
  return hasRule(row) ? entityText(row.entity) : tagText(row.tags);
}

function ruleCell(row, td) {
  if (row.quota_type in BROKER_TYPES) once(td, row.quota_type, () => brokerRuleLink(row.quota_type));
  else once(td, JSON.stringify([row.entity, row.tags, row.upstream_node]), () => withNode(hasRule(row) ? ruleLink(row.entity) : tagChips(row.tags), row.upstream_node));
}

function withNode(rule, node) {
  return node === null ? rule : h("span.two", rule, h("span", nodeText(node)));
}

function clientCell(row, td) {
  once(td, JSON.stringify([row.client_id, row.principal, row.connection_id, row.gateway]), () =>
    h("span.two", { title: `Connection ${row.connection_id}` },
      row.quota_type === "connection_rate" ? h("b", "New connections") : h("a.name.client", { href: explainLink(row) }, row.client_id || "no client id"),
      h("span", row.principal ? h("span.name", row.principal) : "of an address", h("span.where", `, ${row.address}`),
        row.gateway && h("span.name", { title: "Another gateway, as of its last report" }, `, gateway ${row.gateway}`))));
}

function typeCell(row, td) {
  once(td, row.quota_type, () => h("span.tag", { data: { kind: row.quota_type } }, TYPES[row.quota_type] ?? row.quota_type));
}

function rateCell(row, td) {
  const key = LIMIT_KEYS[row.quota_type];
  once(td, `${row.observed} ${row.bound}`, () => {
    const times = row.observed === null ? null : row.observed / row.bound;
    const bar = h("i");
    bar.style.transform = `scaleX(${times === null ? 0 : Math.min(1, 1 / times)})`;
    const observed = row.observed === null ? "–" : rate(key, row.observed, row.bound);
    const title = row.observed === null ? "" : `${rawRate(key, row.observed)} observed, ${rawRate(key, row.bound)} allowed`;
    return h("span.against", { title },
      h("span.pace", h("b", observed), h("span.quiet", `/ ${rate(key, row.bound)}`), times && h("span.over", `${digits(times)}×`)),
      h("span.bar.inverse", bar));
  });
}

/** The throttle time, above a bar of the part that is left. */
function throttleCell(row, td, tr) {
  if (!td.firstChild) replace(td, h("span.left", h("b"), h("span.bar", h("i"))));
  tr.row = row;
  setText(td.firstChild.firstChild, about(row.throttle_ms));
}

function obeysCell(row, td) {
  const text = OBEYS[String(row.obeys)];
  td.toggleAttribute("data-none", !text);
  once(td, text, () => {
    const title = row.obeys === false ? "The client sends without waiting; the broker mutes the connection anyway" : text ? "The client waits for throttle_time_ms" : "Not known yet";
    return h("span.small", { title, data: { obeys: String(row.obeys) } }, text || "–");
  });
}

function explainLink({ client_id, principal, address }) {
  return `/explain?${new URLSearchParams({ user: principal, client_id, ip: address })}`;
}

/** Where the limit is changed; null where a callback sets it. */
function raiseLink(row) {
  if (row.quota_type in BROKER_TYPES) return "/broker-quotas";
  if (!hasRule(row)) return null;
  return rulePage(row.entity, { edit: LIMIT_KEYS[row.quota_type] ?? "connection_creation_rate" });
}

function actionsCell(row, td) {
  once(td, table.keyOf(row), () => {
    const who = row.client_id || row.address;
    const raise = mayEdit && raiseLink(row);
    return h("span.actions",
      iconLink("explain", `Explain ${who}`, explainLink(row)),
      raise && iconLink("edit", `Raise the limit of ${who}`, raise),
      mayEdit && row.connection_id && !row.gateway && iconButton("close", `Close the connection of ${who}`, () => ask(row)));
  });
}

function ask(row) {
  const { element, focus } = question(row, () => dialog.close());
  const dialog = h("dialog.card.ask", { "aria-label": "Close the connection", onclose: () => dialog.remove() }, element);
  document.body.append(dialog);
  dialog.showModal();
  focus();
}

function sortBy(key) {
  const same = url.values.sort === key;
  if (same && mark.button.dataset.old === "yes") return void sortAgain();
  url.set({ sort: key, order: same && url.values.order === "desc" ? "asc" : "desc" });
  show();
}

function update({ items, total: all }) {
  const now = performance.now();
  arrived = true;
  total = all;
  const present = new Set();
  for (const row of items) {
    const key = table.keyOf(row);
    present.add(key);
    channels.set(key, { ...row, endsAt: now + row.remaining_ms, goneAt: null });
  }
  for (const [key, row] of channels) {
    if (!present.has(key)) row.goneAt ??= now;
  }
  show();
}

// The broker sends no update for the removal of the last row, because its own state does not change.
function beat() {
  const now = performance.now();
  const before = channels.size;
  for (const [key, row] of channels) {
    if (row.goneAt !== null && now - row.goneAt > LINGER_MS) channels.delete(key);
  }
  if (channels.size < before) show();
  else tick();
}

function matches(row, needle) {
  const text = [row.client_id, row.principal, row.address, row.quota_type, ruleText(row), nodeText(row.upstream_node) ?? "", row.gateway].join("\n");
  return text.toLowerCase().includes(needle);
}

const slots = new Slots(table.keyOf);
const mark = new OrderMark(count, sortAgain);

function sortAgain() {
  slots.choice = null;
  show();
}

function show() {
  if (!arrived) return;
  const { q, sort, order } = url.values;
  const measure = SORTS[sort] ?? SORTS.times;
  const direction = order === "desc" ? -1 : 1;
  const compare = (one, other) => (measure(one) < measure(other) ? -direction : measure(one) > measure(other) ? direction : 0);
  const needle = q.toLowerCase();
  const rows = [...channels.values()].filter((row) => matches(row, needle)).sort(compare);
  table.showSort(sort, order);
  const placed = slots.place(rows, `${q} ${sort} ${order}`);
  table.show(placed);
  mark.show(placed.filter(Boolean).some((row, at, all) => at > 0 && compare(all[at - 1], row) > 0));
  const shown = rows.length ? table.element : nothing(needle);
  if (box.firstChild !== shown) replace(box, shown);
  const now = [...channels.values()].filter((row) => row.goneAt === null).length;
  const more = total > now ? `, the longest ${group(now)} shown` : "";
  setText(count, channels.size ? `${group(total)} throttled now${more}` : "");
  tick();
}

const EMPTY = {
  free: empty("throttled", "No client is throttled", "All clients are within their quotas. A client that exceeds a quota appears here within a second, and stays for a few seconds after its throttle ends.",
    mayEdit ? h("a.button", { href: "/quotas" }, icon("quotas"), "Client quotas") : null),
  filtered: empty("search", "No match", "No throttled connections match the filter."),
};

function nothing(needle) {
  return needle && channels.size ? EMPTY.filtered : EMPTY.free;
}

// The throttle ended early, or did not recur.
function isFree({ goneAt, endsAt }, now) {
  return goneAt !== null && (endsAt > goneAt + FRAME_MS || now - goneAt > BETWEEN_WAITS_MS);
}

// Between updates the page computes the remaining time itself.
function tick() {
  const now = performance.now();
  for (const tr of table.rows.values()) {
    const { row } = tr;
    const left = Math.max(0, row.endsAt - now);
    const cell = tr.children[5];
    const bar = cell.firstChild.lastChild;
    const free = isFree(row, now);
    cell.title = free ? `${milliseconds(row.throttle_ms)}; released` : `${milliseconds(row.throttle_ms)}, of which ${milliseconds(left)} are left`;
    bar.firstChild.style.transform = `scaleX(${free ? 0 : left / Math.max(row.throttle_ms, 1)})`;
    tr.dataset.free = free ? "yes" : "no";
    tr.title = `Throttled since ${clock(Date.parse(row.since))}`;
  }
}

const HOUR_S = 3600;
const HOUR_AGAIN_MS = 30_000;
const hour = new LineChart(document.getElementById("hour"), {
  label: "Throttled connections",
  format: digits,
  whole: true,
  height: 130,
  series: [{ key: "throttled", label: "Throttled, maximum", tone: "throttled" }],
});

async function showHour() {
  if (document.hidden) return;
  const answer = await get(`/api/v1/overview?history_s=${HOUR_S}`).catch(() => null);
  if (!answer) return;
  document.getElementById("hour-section").hidden = answer.history.throttled.every((value) => !value);
  hour.show(answer.history, HOUR_S);
}

const quotaMarks = new QuotaMarks((marks) => hour.mark(marks));

const search = debounced(() => {
  url.set({ q: filter.value.trim() });
  show();
}, 80);

filter.value = url.values.q;
filter.addEventListener("input", search);
onKeys({ "/": () => filter.focus() });
replace(box, skeleton());
setInterval(beat, FRAME_MS);
showHour();
setInterval(showHour, HOUR_AGAIN_MS);
startLive(["throttled", "recent_throttles"], {
  overview: ({ gateways, version }) => {
    setText(document.getElementById("hour-of"), gateways?.gateways > 1 ? `throttled connections, sum of ${gateways.gateways} gateways` : "throttled connections");
    quotaMarks.update(version);
  },
  throttled: update,
  recent_throttles: (answer) => showRecent(document.getElementById("recent-throttles"), answer),
}).open({ sort: "last", order: "desc", limit: "20" });
