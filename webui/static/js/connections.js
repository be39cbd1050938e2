// Connections: client, software, traffic and mute state.

import { remove } from "./api.js";
import { empty, h, iconButton, setText } from "./dom.js";
import { Listing } from "./listing.js";
import { toast } from "./shell.js";
import { once } from "./table.js";
import { ago, bytes, group } from "./units.js";

const STATES = {
  not_muted: ["reading", "The broker reads requests from it"],
  muted: ["answering", "Muted while a request is in flight"],
  muted_and_response_pending: ["answering", "Muted while a response is being sent"],
  muted_and_throttled: ["throttled", "Muted for a quota violation"],
  muted_and_throttled_and_response_pending: ["throttled", "Muted for a quota violation, with a response being sent"],
  muted_for_memory: ["waits for memory", "queued.max.request.bytes is exhausted"],
};
const mayEdit = document.body.dataset.mayEdit === "yes";

// The panel that is open below a row: {key, element}.
let open = null;

const list = new Listing({
  topic: "connections",
  label: "Open connections",
  nouns: ["connection", "connections"],
  keyOf: (row) => row.connection_id,
  sort: "since",
  rising: ["since", "client", "principal", "address", "software", "listener"],
  none: () => empty("connections", "No client is connected", "Point a Kafka client at the broker to see it here."),
  below: (key) => (open?.key === key ? open.element : null),
  columns: [
    { label: "Client", sort: "client", size: "client", whole: "bare", cell: clientCell },
    { label: "Address", sort: "address", size: "address", cell: (row, td) => once(td, row.address, () => h("span.mono.small", row.address)) },
    { label: "Listener", sort: "listener", size: "listener", cell: listenerCell },
    { label: "Software", sort: "software", size: "software", cell: (row, td) => once(td, `${row.software_name} ${row.software_version}`, () => h("span.two.small", h("span.name", row.software_name || "unknown"), h("span.name", row.software_version))) },
    { label: "Since", sort: "since", size: "since", cell: sinceCell },
    { label: "Requests", sort: "requests", size: "count", num: true, cell: (row, td) => setText(td, group(row.requests)) },
    { label: "In", sort: "bytes_in", size: "bytes", num: true, cell: (row, td) => bytesCell(row.bytes_in, td) },
    { label: "Out", sort: "bytes_out", size: "bytes", num: true, cell: (row, td) => bytesCell(row.bytes_out, td) },
    { label: "State", sort: "state", size: "state", cell: stateCell },
    ...(mayEdit ? [{ label: "", size: "actions", whole: "bare", num: true, cell: closeCell }] : []),
  ],
});

function clientCell(row, td) {
  once(td, JSON.stringify([row.client_id, row.principal, row.connection_id]), () => {
    const who = new URLSearchParams({ user: row.principal, client_id: row.client_id, ip: row.address });
    return h("span.two", { title: row.connection_id }, h("a.name.client", { href: `/explain?${who}` }, row.client_id || "no client id"), h("span.name", row.principal));
  });
}

function listenerCell(row, td) {
  once(td, `${row.listener} ${row.tls}`, () => h("span.two", h("span.name", row.listener), h("span", { title: row.tls }, row.tls ? row.tls.split(" ")[0] : row.protocol === row.listener ? null : row.protocol)));
}

function sinceCell(row, td) {
  setText(td, ago(row.opened_at));
  td.title = `${new Date(row.opened_at).toLocaleString()} (${row.opened_at})`;
}

function bytesCell(value, td) {
  setText(td, bytes(value));
  td.title = `${group(value)} bytes`;
}

function stateCell(row, td) {
  const [words, title] = STATES[row.mute_state] ?? [row.mute_state, ""];
  once(td, row.mute_state, () => h("span.tag", { title, data: { state: words } }, words));
}

function closeCell(row, td) {
  once(td, row.connection_id, () => h("span.actions", iconButton("close", `Close the connection of ${row.client_id || row.address}`, () => ask(row))));
}

/** Asks for confirmation: the client may have a request in flight. */
function ask(row) {
  const key = row.connection_id;
  const leave = () => {
    open = null;
    list.show();
    list.table.rows.get(key)?.querySelector(".actions button")?.focus();
  };
  const close = h("button.danger", { type: "button", onclick: () => run(row, leave) }, "Close connection");
  const panel = h("div.editor", { onkeydown: (event) => event.key === "Escape" && leave() },
    h("h2", "Close the connection of ", h("span.chip", h("span", "client id"), h("span.name", row.client_id)), "?"),
    h("p", "Its request in flight gets no response. The client can reconnect at once; limit its address or user to keep it out."),
    h("p.quiet.mono.small", key),
    h("div.buttons", close, h("button", { type: "button", onclick: leave }, "Keep it open")));
  open = { key, element: h("tr.panel", h("td", { colspan: list.table.columns.length }, panel)) };
  list.show();
  close.focus();
}

async function run(row, leave) {
  try {
    await remove(`/api/v1/connections/${encodeURIComponent(row.connection_id)}`);
    toast(`Closed the connection of ${row.client_id || row.address}.`);
  } catch (problem) {
    toast(problem.message, { kind: "bad" });
  }
  leave();
}

list.start();
