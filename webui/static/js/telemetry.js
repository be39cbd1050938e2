// Client metrics: the subscriptions with their matching clients, and the client instances with their metrics.

import { empty, h, iconButton, needs, replace, setText } from "./dom.js";
import { importMenu } from "./import_panel.js";
import { InstancePanel } from "./instance_panel.js";
import { Listing } from "./listing.js";
import { SubscriptionEditor } from "./subscription_editor.js";
import { subscriptionImport } from "./subscription_import.js";
import { changedCell, once, Table } from "./table.js";
import { ago, everyText, group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

const box = document.getElementById("subscriptions");

// A subscription's editor and a client's metrics.
const edited = new OpenPanel({ listing: () => ({ table: rules, show: showSubscriptions }), above: document.getElementById("adding") });
const opened = new OpenPanel({ listing: () => list });
let subscriptions = [];

const SORTS = {
  name: (row) => row.name.toLowerCase(),
  every: (row) => row["interval.ms"],
  clients: (row) => row.matching,
  changed: (row) => row.changed_at,
};

const rules = new Table({
  label: "Subscriptions to clients' metrics",
  keyOf: (row) => row.name,
  onsort: sortBy,
  columns: [
    { label: "Name", sort: "name", size: "name", whole: "bare", cell: ({ name }, td) => once(td, name, () => h("b.name", name)) },
    { label: "Metrics", size: "metrics", whole: true, cell: metricsCell },
    { label: "Interval", sort: "every", size: "every", num: true, cell: (row, td) => setText(td, everyText(row["interval.ms"])) },
    { label: "Client match", size: "match", whole: true, cell: matchCell },
    { label: "Clients", sort: "clients", size: "count", num: true, cell: (row, td) => matchingCell(row, td) },
    { label: "Last changed", sort: "changed", size: "changed", cell: changedCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

const list = new Listing({
  topic: "client-instances",
  // The sort order of the subscriptions; the other parameters concern the clients.
  also: { rules: "name", way: "asc" },
  label: "Client instances",
  onrow: toggle,
  nouns: ["client", "clients"],
  keyOf: (row) => row.instance_id,
  sort: "client",
  rising: ["client", "software", "address"],
  none: () => empty("telemetry", "No client instances yet", "Clients that support KIP-714 (such as the Java client since 3.7 and librdkafka since 2.5) request their subscriptions when they connect."),
  below: opened.below,
  arrived: (answer) => {
    subscriptions = answer.subscriptions;
    showSubscriptions();
    const row = answer.items.find(({ instance_id }) => instance_id === opened.key);
    if (row) opened.panel.arrived(row);
  },
  columns: [
    { label: "Client", sort: "client", size: "client", whole: "bare", cell: clientCell },
    { label: "Software", sort: "software", size: "software", cell: (row, td) => once(td, `${row.software_name} ${row.software_version}`, () => h("span.two", h("span.name", row.software_name), h("span", row.software_version))) },
    { label: "Subscriptions", size: "wanted", cell: wantedCell },
    { label: "Interval", sort: "interval", size: "every", num: true, cell: (row, td) => setText(td, everyText(row.interval_ms)) },
    { label: "Pushes", sort: "pushes", size: "count", num: true, cell: (row, td) => setText(td, group(row.pushes)) },
    { label: "Last push", sort: "pushed", size: "changed", cell: pushedCell },
    { label: "Errors", sort: "errors", size: "count", num: true, cell: errorsCell },
    { label: "Metrics", sort: "series", size: "count", num: true, cell: figuresCell },
  ],
});

function metricsCell({ metrics }, td) {
  once(td, metrics.join(), () => {
    if (metrics.includes("*")) return "all of them";
    return metrics.length ? h("span.lines", metrics.map((prefix) => h("code.name", prefix))) : h("span.quiet", "none");
  });
}

function matchCell({ match }, td) {
  once(td, match.join(), () => (match.length ? h("span.lines", match.map((item) => h("code.name", item))) : "any client"));
}

function matchingCell({ matching }, td) {
  once(td, String(matching), () => h("b", { class: matching ? "" : "quiet", title: "Matching client instances now" }, group(matching)));
}

function actionsCell(row, td) {
  td.row = row;
  once(td, "actions", () => h("span.actions",
    needs("editor", iconButton("edit", `Edit ${row.name}`, () => edit(td.row))),
    needs("editor", iconButton("remove", `Remove ${row.name}`, () => edit(td.row, true)))));
}

function clientCell(row, td) {
  td.row = row;
  const isOpen = opened.key === row.instance_id;
  once(td, `${row.client_id} ${row.address} ${isOpen}`, () =>
    h("button.plain.client", { type: "button", "aria-expanded": String(isOpen), onclick: () => toggle(td.row) },
      h("span.two", h("b.name", row.client_id), h("span.mono", `${row.principal} from ${row.address}`))));
}

function wantedCell({ subscriptions: names }, td) {
  once(td, names.join(), () => (names.length ? h("span.lines", names.map((name) => h("span.name", name))) : h("span.quiet", "none")));
}

function pushedCell({ last_push_at: at, terminating }, td) {
  once(td, `${at} ${at && ago(at)} ${terminating}`, () => {
    if (!at) return h("span.quiet", "not yet");
    return h("span.two.small", { title: new Date(at).toLocaleString() }, h("time", { datetime: at }, ago(at)), terminating ? h("span", "its last") : null);
  });
}

function errorsCell({ errors, throttles, last_error: last }, td) {
  once(td, `${errors} ${throttles} ${last}`, () => {
    if (!errors && !last) return h("span.quiet", "–");
    return h("span.two", h("b.warn", group(errors)), last ? h("span.name", last.toLowerCase().replaceAll("_", " ")) : null);
  });
}

function figuresCell({ series }, td) {
  once(td, String(series), () => (series ? group(series) : h("span.quiet", "–")));
}

function sortBy(key) {
  const { rules: sorted, way } = list.url.values;
  list.url.set({ rules: key, way: key === sorted && way === "asc" ? "desc" : "asc" });
  showSubscriptions();
}

function showSubscriptions() {
  const { rules: sorted, way } = list.url.values;
  const measure = SORTS[sorted] ?? SORTS.name;
  const direction = way === "desc" ? -1 : 1;
  const rows = [...subscriptions].sort((one, other) => direction * (measure(one) < measure(other) ? -1 : measure(one) > measure(other) ? 1 : 0));
  rules.showSort(sorted, way);
  rules.show(rows, edited.below);
  const nothing = () => empty("quotas", "No subscription yet", "Clients push metrics only for a subscription. A new subscription takes effect within five minutes, or when a client connects.",
    needs("editor", h("button.primary", { type: "button", onclick: () => add() }, "Add a subscription")));
  const shown = subscriptions.length ? rules.element : (showSubscriptions.nothing ??= nothing());
  if (box.firstChild !== shown) replace(box, shown);
}

function edit(row, removing = false) {
  edited.open(row.name, (onclose) => new SubscriptionEditor({ row, removing, onclose, onedit: edit }));
}

function add() {
  edited.open(null, (onclose) => new SubscriptionEditor({ row: null, onclose, onedit: edit }));
}

function toggle(row) {
  if (opened.key === row.instance_id) opened.close();
  else opened.open(row.instance_id, () => new InstancePanel(row));
}

needs("editor", document.getElementById("add")).addEventListener("click", () => add());
needs("editor", document.getElementById("import"));
importMenu(() => edited.open(null, subscriptionImport));
list.start({ n: () => document.getElementById("add").click() });
