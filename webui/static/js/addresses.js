// IP quotas: every address that has a limit or connects, with its connection rate, throttles and rejections.

import { AddressEditor, addressText, DEFAULT, limitText, permanentOf } from "./address_editor.js";
import { bar, empty, h, iconButton, needs, setText } from "./dom.js";
import { rulePage } from "./entity.js";
import { Listing } from "./listing.js";
import { countdown, countdownKey } from "./quota_times.js";
import { changedCell, once, Table } from "./table.js";
import { digits, group, missingText } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const KEY = "connection_creation_rate";
const RULES = {
  "max.connections": "connection limit reached",
  "max.connections.per.ip": "too many per address",
  connection_creation_rate: "rate exceeded",
};
const WHOLE = { broker: "Broker", controller: "Controller" };
const limits = document.getElementById("limits");
const note = document.getElementById("elsewhere");

const opened = new OpenPanel({ listing: () => list, above: document.getElementById("adding") });

const list = new Listing({
  topic: "ip-quotas",
  label: "Addresses and their limits",
  nouns: ["address", "addresses"],
  keyOf: (row) => row.address,
  sort: "address",
  none: nothing,
  below: opened.below,
  arrived: ({ limits: rows, unlisted, unheard }) => {
    showLimits(rows);
    note.hidden = unlisted === 0 && unheard.length === 0;
    setText(note, missingText("address", "addresses", "that connected last", unlisted, unheard));
  },
  columns: [
    { label: "Address", sort: "address", size: "address", whole: "bare", cell: addressCell },
    { label: "Limit", sort: "limit", size: "limit", num: true, cell: limitCell },
    { label: "New per second", sort: "rate", size: "rate", num: true, cell: rateCell },
    { label: "Open now", sort: "connections", size: "count", num: true, cell: openCell },
    { label: "Accepted", sort: "accepted", size: "count", num: true, cell: acceptedCell },
    { label: "Throttled", sort: "throttled", size: "count", num: true, cell: (row, td) => stopped(td, total(row, "throttled"), "Throttled because the address exceeded its connection rate") },
    { label: "Rejected", sort: "refused", size: "count", num: true, cell: (row, td) => stopped(td, total(row, "refused"), "Closed by a limit") },
    { label: "Last changed", sort: "changed", size: "changed", cell: lastChanged },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function addressCell(row, td) {
  const { address, temporary } = row;
  once(td, `${address} ${isRule(row)} ${temporary ? countdownKey(KEY, temporary) : ""}`, () => {
    const href = isRule(row) ? rulePage({ ip: address === DEFAULT ? null : address }) : null;
    const name = address === DEFAULT ? h("a.name", { href, title: "All addresses without a limit of their own" }, "Default") : h(href ? "a.name.mono" : "span.name.mono", { href }, address);
    return temporary ? h("span.two", h("span", name), countdown(KEY, temporary)) : name;
  });
}

/** Whether an address has a rule of its own, permanent or for a time. */
function isRule({ [KEY]: limit, temporary }) {
  return limit !== null || temporary !== undefined;
}

function limitCell(row, td) {
  const isActive = row.temporary?.active ?? false;
  once(td, `${row[KEY]} ${row.bound} ${isActive}`, () => {
    if (row[KEY] !== null) return h(isActive ? "b.temporary" : "b", limitText(row[KEY]));
    if (row.bound !== null) return h("span.two", { title: "The default limit" }, h("span", limitText(row.bound)), h("span", "default"));
    return h("span.quiet", { title: "Unlimited" }, "–");
  });
}

/** An address's use of the broker's listeners, of the controller's, which are counted separately, and of other gateways. */
function uses({ use, controller_use, elsewhere }) {
  return [use, controller_use, ...elsewhere].filter(Boolean);
}

function total(row, figure) {
  return uses(row).reduce((sum, use) => sum + use[figure], 0);
}

/** One cell: the broker's value and, below it, the controller's and the connections at other gateways. */
function perServer(row, figure) {
  const controller = row.controller_use && h("span.quiet", { title: "On the controller's listeners, which are counted separately" }, "controller ", figure(row.controller_use));
  const title = row.elsewhere.map((use) => `gateway ${use.gateway}: ${group(use.connections)}${use.max_connections === null ? "" : ` of ${group(use.max_connections)}`}`).join("\n");
  const elsewhere = row.elsewhere.length ? h("span.quiet.small", { title }, `${group(row.elsewhere.reduce((sum, use) => sum + use.connections, 0))} elsewhere`) : null;
  const parts = [row.use && h("span", figure(row.use)), controller, elsewhere].filter(Boolean);
  return parts.length > 1 ? h("span.two", parts) : parts[0];
}

function rateCell(row, td) {
  const { bound } = row;
  const elsewhere = row.elsewhere.reduce((sum, use) => sum + use.rate, 0);
  const here = Math.max(0, row.use?.rate ?? 0, row.controller_use?.rate ?? 0);
  const fastest = uses(row).length ? here + elsewhere : null;
  td.toggleAttribute("data-none", fastest === null);
  const shown = fastest === null ? "–" : `${digits(fastest)}/s`;
  const where = elsewhere ? h("span.quiet.small.where", { title: "All gateways share the limit" }, `${digits(elsewhere)}/s elsewhere`) : null;
  const used = fastest !== null && bound ? fastest / bound : null;
  once(td, `${shown} ${used === null ? "" : Math.round(used * 100)} ${digits(elsewhere)}`, () => {
    if (used === null) return where ? h("span.two", h("span", shown), where) : h("span", { class: fastest === null ? "quiet" : "" }, shown);
    const level = used >= 1 ? "urgent" : used > 0.8 ? "watch" : "good";
    return h("span.limit", { title: `${Math.round(used * 100)} % of ${limitText(bound)}` }, h("span", shown), bar(used, level), where);
  });
}

function openCell(row, td) {
  const seen = uses(row);
  td.toggleAttribute("data-none", !seen.length);
  if (!seen.length) return void once(td, "none", () => h("span.quiet", "–"));
  const counts = ({ connections, max_connections: most }) => [group(connections), most === null ? null : h("span.quiet", { title: "max.connections.per.ip" }, ` of ${group(most)}`)];
  once(td, JSON.stringify([row.use, row.controller_use, ...row.elsewhere].map((use) => use && [use.gateway, use.connections, use.max_connections])), () => perServer(row, counts));
}

function acceptedCell(row, td) {
  const isSeen = uses(row).length > 0;
  td.toggleAttribute("data-none", !isSeen);
  setText(td, isSeen ? group(total(row, "accepted")) : "–");
}

function stopped(td, times, title) {
  td.toggleAttribute("data-none", !times);
  once(td, String(times), () => h("span", { title, class: times ? "warn" : "quiet" }, times ? group(times) : "–"));
}

function lastChanged(row, td) {
  td.toggleAttribute("data-none", row.changed_at === null);
  if (row.changed_at === null) return void once(td, "none", () => h("span.quiet", "–"));
  changedCell(row, td);
}

function actionsCell(row, td) {
  td.row = row;
  const isLimited = permanentOf(row) !== null;
  once(td, `actions ${isLimited}`, () => {
    const text = addressText(row.address);
    if (!isLimited) return h("span.actions", needs("editor", iconButton("plus", `Limit ${text}`, () => edit(td.row))));
    return h("span.actions",
      needs("editor", iconButton("edit", `Edit the limit of ${text}`, () => edit(td.row))),
      needs("editor", iconButton("remove", `Remove the limit of ${text}`, () => edit(td.row, true))));
  });
}

function edit(row, removing = false) {
  opened.open(row.address, (onclose) => new AddressEditor({ row, removing, onclose, onedit: edit }));
}

function add() {
  opened.open(null, (onclose) => new AddressEditor({ row: null, onclose, onedit: edit }));
}

function nothing() {
  return empty("addresses", "No connections yet", "An address appears here when it connects, with its connection rate. A limit bounds its new connections per second.",
    needs("editor", h("button.primary", { type: "button", onclick: () => add() }, "Limit an address")));
}

const ceilings = new Table({
  label: "All connections",
  keyOf: ({ server, listener }) => `${server}/${listener}`,
  columns: [
    { label: "Total", size: "address", whole: "bare", cell: ({ server, listener }, td) => once(td, `${server}/${listener}`, () => h("b.name", listener || WHOLE[server])) },
    { label: "Open connections", cell: (row, td) => ceiling(td, row, group(row.connections), row.max_connections, "max.connections") },
    { label: "New per second", cell: (row, td) => ceiling(td, row, `${digits(row.rate)}/s`, row.max_rate, "max.connection.creation.rate") },
    { label: "Rejected since start", cell: refusedCell },
  ],
});

/** A value, its maximum, and the setting that defines the maximum. */
function ceiling(td, { listener }, shown, most, key) {
  once(td, `${shown} ${most}`, () => {
    const setting = listener === "" ? key : `listener.name.${listener.toLowerCase()}.${key}`;
    return h("span.two", { title: setting }, h("span", h("b", shown), h("span.quiet", most === null ? ", no limit" : ` of ${group(most)}`)), h("code", key));
  });
}

function refusedCell({ rejected }, td) {
  const refused = rejected.filter(({ count }) => count > 0);
  once(td, JSON.stringify(refused), () => (refused.length
    ? h("span.two", refused.map(({ rule, count }) => h("span", { title: rule }, h("b.warn", group(count)), ` ${RULES[rule] ?? rule}`)))
    : h("span.quiet", "none")));
}

/** Rows for the broker, for the controller if it has listeners, and for each listener of a server with several. */
function showLimits(rows) {
  const listeners = (server) => rows.filter((row) => row.server === server && row.listener !== "").length;
  ceilings.show(rows.filter(({ server, listener }) => listener === "" || listeners(server) > 1));
  if (!limits.firstChild) limits.append(ceilings.element);
}

needs("editor", document.getElementById("add")).addEventListener("click", () => add());
list.start({ n: () => document.getElementById("add").click() });
